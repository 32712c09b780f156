// A job of this page: started, paused, stopped and heard. What it shows is up to the pages that extend this.
import { address, ask, listen, mine, Refused } from "./session.js";
import { el } from "./draw.js";

export class Run {
  constructor(task) {
    this.task = task;
    this.job = null;
    this.state = "idle";
    const button = (id, words, press, more) => el("button", { type: "button", id, onclick: press, ...more }, words);
    this.startButton = button("start", "Start", () => this.start(), { class: "main" });
    this.pauseButton = button("pause", "Pause", () => this.pause(), { disabled: true });
    this.stopButton = button("stop", "Stop", () => this.stop(), { disabled: true });
    this.status = el("p", { class: "status", role: "status", "aria-live": "polite" });
    this.said = el("p", { class: "said", id: "said" });
    this.files = el("ul", { class: "files", "aria-label": "Files" });
    this.command = el("pre", { id: "command", tabindex: "0" });
    this.download = el("a", { class: "button", id: "download", download: "unshuffled.zip" }, "Download everything");
    this.forget = listen((event) => this.hear(event));
  }

  close() {
    this.forget();
    if (this.running) this.say({ say: "stop" }).catch(() => {});
  }

  get running() { return ["waiting", "running", "paused"].includes(this.state); }

  results(extra = null) {
    this.outcome = el("section", { class: "card stack", hidden: true, "aria-label": "Result" }, el("h2", {}, "What came out"), this.said, extra, el("div", { class: "row" }, this.download), this.files);
    return this.outcome;
  }

  line() {
    this.spoken = el("section", { class: "card", hidden: true, "aria-label": "Command line" }, el("h2", {}, "The same on the command line"),
      el("div", { class: "command" }, this.command, el("button", { type: "button", onclick: (event) => this.copy(event.target) }, "Copy")));
    return this.spoken;
  }

  tell(words) {
    this.status.setAttribute("aria-live", this.state === "running" ? "off" : "polite");  // stages change too fast to be read out
    this.status.classList.remove("bad");
    this.status.textContent = words;
  }

  fail(error) {
    this.status.setAttribute("aria-live", "assertive");
    this.status.classList.add("bad");
    this.status.textContent = error instanceof Refused || typeof error === "string" ? String(error.message ?? error) : `Something is wrong with this page: ${error.message}`;
    this.turn("idle");
  }

  turn(state) {
    this.state = state;
    this.startButton.disabled = this.running;
    this.pauseButton.disabled = !["running", "paused"].includes(state);
    this.pauseButton.textContent = state === "paused" ? "Go on" : "Pause";
    this.stopButton.disabled = !this.running;
  }

  async start() {
    this.outcome.hidden = this.spoken.hidden = true;
    this.began = performance.now();
    this.turn("waiting");
    this.tell("Starting …");
    this.early = [];  // events may come before the answer that names their job
    this.job = null;
    try {
      this.job = (await ask(mine("jobs"), this.asked())).job;
      const early = this.early;
      this.early = null;
      for (const event of early) this.hear(event);
    } catch (error) { this.early = null; this.fail(error); }
  }

  say(what) { return ask(mine(`jobs/${this.job}/say`), what); }

  async stop() {
    this.tell("Stopping; the best so far is kept …");
    await this.say({ say: "stop" }).catch((error) => this.fail(error));
  }

  async pause() {
    const on = this.state === "paused";
    await this.say({ say: on ? "go on" : "pause" }).then(() => { this.turn(on ? "running" : "paused"); if (!on) this.tell("Paused."); }, (error) => this.fail(error));
  }

  hear(event) {
    if (event.event === "lost") { this.fail(event.sentence); return; }
    if (event.event === "anew") { this.anew(); return; }
    if (this.early && !this.job) { this.early.push(event); return; }
    if (event.job !== this.job) return;
    const heard = {
      waiting: () => this.tell(`Waiting: ${event.before} before this one.`),
      begun: () => this.turn("running"),
      command: () => { this.command.textContent = event.text; this.spoken.hidden = false; },
      stage: () => this.tell(`${event.stage} …`),
      given: () => this.given?.(event),
      frame: () => this.frame(event),
      done: () => this.done(event),
      failed: () => this.fail(event.sentence),
    }[event.event];
    heard?.();
  }

  anew() {  // the connection was lost for so long that the studio gave up this page: it has no job and no files of it any more
    if (this.running) this.fail("The connection was lost, and the work with it: press Start to begin again.");
    else if (this.status.classList.contains("bad")) this.tell("The studio answers again.");
  }

  done(event) {
    this.turn("done");
    const file = (name) => address(mine(`jobs/${this.job}/results/${name.split("/").map(encodeURIComponent).join("/")}`));
    this.said.textContent = event.said.trim();
    this.download.href = address(mine(`jobs/${this.job}/unshuffled.zip`));
    this.files.replaceChildren(...event.files.map((name) => name.replace("results/", "")).map((name) => el("li", {}, el("a", { href: file(name), download: name.replaceAll("/", "-") }, name))));
    this.outcome.hidden = false;
    this.tell(`Done in ${((performance.now() - this.began) / 1000).toFixed(1)} s.`);
    return file;
  }

  async copy(button) {
    try { await navigator.clipboard.writeText(this.command.textContent); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(this.command); button.textContent = "Selected"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
}
