// Which page is shown: the part of the address after the hash.
import { connect } from "./session.js";
import { el } from "./draw.js";
import { check, choice, grid, number } from "./fields.js";
import { Workbench } from "./workbench.js";
import { MatchView, PuzzleView, StripsView, TableView, TourView } from "./views.js";
import { Learn } from "./learn.js";
import { Explain } from "./explain.js";

const PICTURES = ["png", "jpg", "jpeg", "webp", "bmp", "tif", "tiff", "gif", "ppm", "pgm"];
const TABLES = ["csv", "tsv", "txt", "tsp", "atsp"];
const minor = (field) => ({ ...field, minor: true });  // what one seldom sets stands below the buttons
const seed = () => minor(number("seed", "Seed", { value: 0, min: 0, max: 2 ** 31, step: 1, omit: 0 }));
const limit = () => minor(number("time_limit", "Seconds at most", { min: 0.1, max: 3600, placeholder: "as long as it takes" }));
const polish = () => minor(check("polish", "Local search afterwards"));

// A photo is cut here; a pile of tiles is taken as it comes.
const photo = (across, down, turned = false) => ({ grid: [across, down], shuffle: true, turned, foreign: false, several: false, anchors: 0 });
const pile = (more) => ({ grid: ["", ""], shuffle: false, turned: false, foreign: false, several: false, anchors: 0, ...more });
const PILES = ["missing and foreign", "two in one pile"];

function puzzleRules(bench, { grid, shuffle, turned, foreign, several, anchors, polish }) {
  const many = bench.uploads ? bench.uploads.length > 1 : PILES.includes(bench.example);
  several.apply(many);
  const all = several.value() === true;
  for (const field of [grid, shuffle, polish]) field.apply(!all);
  foreign.apply(!all && !shuffle.value());
  anchors.apply(!all && shuffle.value() === true && !turned.value());
}

const PAGES = {
  puzzle: ["Puzzle", (root) => new Workbench(root, {
    task: "puzzle", title: "Puzzle", lead: "Cut a photo into tiles, shuffle them, and watch a soft permutation find their places: no training, no hints. Every tile is drawn at the mean of the places where it may stand.",
    takes: PICTURES, several: true, what: "a picture, or all tiles of one or more", view: new PuzzleView(), settle: puzzleRules,
    examples: { coffee: photo(12, 9), boats: photo(12, 9), alps: photo(12, 9), turned: photo(8, 6, true), [PILES[0]]: pile({ foreign: true }), [PILES[1]]: pile({ several: true }) },
    fields: [grid("grid", 12, 9), check("shuffle", "Cut and shuffle it first", true), check("turned", "Tiles are turned as well"), check("foreign", "Tiles of other pictures may be among them"), check("several", "Several pictures in one pile"),
      minor(choice("gap", "Worn edges of tiles", [["", "none"], ["auto", "find out"], ["1", "1 pixel"], ["2", "2 pixels"], ["3", "3 pixels"]])),
      minor(number("anchors", "Tiles whose place is given away", { value: 0, min: 0, max: 1000, step: 1, omit: 0 })), polish(), seed(), limit()],
  })],
  strips: ["Strips", (root) => new Workbench(root, {
    task: "strips", title: "Strips", lead: "A page went through the shredder. Scans of the strips, one picture each, are put side by side again by the shape of their edges and the print beside them.",
    takes: PICTURES, several: true, what: "a picture of every strip", view: new StripsView(),
    examples: { "shredded page": { turned: false, several: false, missing: false }, "some upside down": { turned: true, several: false, missing: false }, "two pages": { turned: false, several: true, missing: false } },
    fields: [check("turned", "Some may be upside down"), check("several", "Strips of several pages"), check("missing", "Strips may be missing"), polish(), seed(), limit()],
    settle: (bench, { several, polish }) => polish.apply(!several.value()),
  })],
  tour: ["Tour", (root) => tour(root)],
  table: ["Table", (root) => new Workbench(root, {
    task: "table", title: "Table", lead: "Order the rows of a table so that neighbours are alike, and its columns too if you like. Above the table before and after, below how unlike its rows are.",
    takes: TABLES, examples: { graves: {}, spectra: {} }, view: new TableView(),
    fields: [check("columns", "Order the columns as well", true), choice("kind", "The numbers are", [["", "to be found out"], ["features", "measurements"], ["counts", "counts"], ["dissimilarity", "dissimilarities"]]), choice("criterion", "Criterion", [["", "what fits the table"], ["path", "path length"], ["two-sum", "2-SUM"], ["lags", "path over half of all lags"]]), polish(), seed(), limit()],
  })],
  match: ["Match", (root) => new Workbench(root, {
    task: "match", title: "Match", lead: "Two sets that have nothing in common but their inner structure: which item of A is which item of B, and who is left out?",
    takes: TABLES, several: true, what: "two tables, A and B", examples: { fish: {}, cells: {} }, view: new MatchView(),
    fields: [check("distances", "Both tables are distances"), number("reject", "Share of structure that must agree", { min: 0.01, max: 0.99, placeholder: "by itself" }), seed(), limit()],
  })],
  learn: ["Learn", (root) => new Learn(root)],
  explain: ["How it works", (root) => new Explain(root)],
};

function tour(root) {
  let later = null;
  const view = new TourView(() => {
    clearTimeout(later);
    later = setTimeout(() => {
      const points = view.points.own();
      if (!points) return;
      bench.frames = bench.frames.filter((f) => f.ring && !f.final).slice(-1);
      bench.at = 0;
      bench.result = null;
      if (bench.state === "running" || bench.state === "paused") bench.say({ say: "points", points }).then(() => { bench.turn("running"); }, () => bench.start());
      else if (bench.state !== "waiting") bench.start();
    }, 120);
  });
  const bench = new Workbench(root, {
    task: "tour", title: "Tour", lead: "A short round trip. Every position of the tour is drawn at the mean of the cities that may stand there: a rubber band that stretches until it goes through all of them.",
    takes: TABLES, examples: { random: {}, spiral: {}, towns: {} }, view, fields: [polish(), seed(), limit()],
    note: "Click to place a city, drag to move one, right-click to remove it, also while it runs. Keys: arrows, Enter, Delete.",
  });
  view.attach(bench.canvas, () => { bench.stale = true; });
  return bench;
}

let current = null;
function open() {
  if (location.hash === "#main") { document.getElementById("main").focus(); return; }
  const name = location.hash.slice(1) in PAGES ? location.hash.slice(1) : "puzzle";
  current?.close();
  const main = document.getElementById("main");
  main.replaceChildren();
  document.title = `${PAGES[name][0]} · unshuffle studio`;
  for (const link of document.querySelectorAll("#pages a")) {
    if (link.getAttribute("href") === "#" + name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  current = PAGES[name][1](main);
}

document.getElementById("pages").append(...Object.entries(PAGES).map(([name, [title]]) => el("a", { href: "#" + name }, title)));
const root = document.documentElement;
const kept = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
if (kept) root.dataset.theme = kept;
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* private window */ }
  dispatchEvent(new Event("resize"));
});
addEventListener("hashchange", () => { open(); document.getElementById("main").focus({ preventScroll: true }); });
// a file that is dropped beside the field for it is meant for the page, and not to be opened in its place
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => { event.preventDefault(); current?.take?.([...event.dataTransfer.files]); });
connect();
open();
