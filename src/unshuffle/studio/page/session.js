// What links this page to its server: the token of its address, one stream of events, requests and uploads.
const token = new URLSearchParams(location.search).get("token") || "";
export const name = crypto.randomUUID();
const listeners = new Set();
let source = null;
const PATIENCE = 4000;  // milliseconds without an answer

export class Refused extends Error {}

export function address(path) {
  const url = new URL(path, location.origin);
  url.searchParams.set("token", token);
  return url.toString();
}

async function answered(response) {
  if (response.ok) return response;
  const text = await response.text();
  let sentence = text;
  try { sentence = JSON.parse(text).sentence; } catch { /* plain text */ }
  throw new Refused(sentence || "The studio did not understand that.");
}

export async function ask(path, body) {
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers: { "x-token": token, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused("The studio does not answer: start it again and open the address that it prints.");
  }
  return (await answered(response)).json();
}

export const mine = (rest) => `/api/pages/${name}/${rest}`;

export async function upload(file) {
  const url = mine("uploads") + "?name=" + encodeURIComponent(file.name);
  const response = await fetch(url, { method: "POST", headers: { "x-token": token }, body: file }).catch(() => {
    throw new Refused("The upload was broken off: it is too large, or the studio has stopped.");
  });
  return (await (await answered(response)).json()).upload;
}

export function listen(callback) {
  listeners.add(callback);
  return () => listeners.delete(callback);
}

export function connect() {
  source = new EventSource(address(mine("events")));
  let known = false;
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    if (event.event === "here") {  // the first of every connection
      if (known && event.anew) for (const listener of [...listeners]) listener({ event: "anew" });
      known = true;
      return;
    }
    for (const listener of [...listeners]) listener(event);
  };
  let lost = null;
  const found = () => { clearTimeout(lost); lost = null; };
  source.onopen = found;
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) {  // it tries again by itself
      lost ??= setTimeout(() => tell("The studio does not answer: start it again and open the address that it prints."), PATIENCE);
      return;
    }
    found();
    const sentence = token ? "The studio has stopped or was started anew: open the address that it prints." : "The address lacks its token: open the one that the studio printed.";
    tell(sentence);
  };
}

function tell(sentence) {
  for (const listener of [...listeners]) listener({ event: "lost", sentence });
}

addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });  // back from where it was left behind
addEventListener("pagehide", () => {
  source?.close();
  navigator.sendBeacon(address(mine("leave")));
});
