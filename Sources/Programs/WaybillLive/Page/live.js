// The page of `waybill live`: events as they arrive, the way of each, and reports.
//
// No library, and no request to another host. Values become text nodes (`h`), and a report's drawing is copied from known
// elements. What is drawn again each second is compared with what is there (`morph`), so that focus and selection stay.

// Rows that the table keeps; "Load older" raises it.
const ROWS_MAX = 300;
// Rows that a pause keeps; what is older becomes a gap that can be loaded.
const HELD_MAX = 5000;
const PAGE_SIZE = 200;
// Streams that all tabs of this browser hold together: it opens six connections to a host, and a page needs one to load.
const STREAMS_MAX = 4;
const POLL_MS = 2000;
// The server sends a beat each 15 s.
const SILENCE_MS = 35_000;
// What a pause within a session is, in a person's timeline.
const PAUSE_MS = 60_000;
const SLOW_MS = 2000;
const ANY_REFUSED = "refused:*";

const el = (id) => document.getElementById(id);

// MARK: Text

const count = new Intl.NumberFormat("en").format;

const UNSAFE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u061c\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** Text whose invisible characters, also those that turn its direction, are shown by their numbers. */
const visible = (text) => text.replace(UNSAFE, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

const cut = (text, max) => text.length > max ? `${text.slice(0, max)}…` : text;

const plain = (value) => typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value);

function duration(ms) {
  if (typeof ms !== "number" || !Number.isFinite(ms)) return "–";
  const size = Math.abs(ms), sign = ms < 0 ? "−" : "";
  if (size < 1000) return `${sign}${Math.round(size)} ms`;
  if (size < 60_000) return `${sign}${(size / 1000).toFixed(1)} s`;
  if (size < 3_600_000) return `${sign}${Math.round(size / 60_000)} min`;
  if (size < 172_800_000) return `${sign}${(size / 3_600_000).toFixed(1)} h`;
  return `${sign}${Math.round(size / 86_400_000)} d`;
}

function bytes(number) {
  if (typeof number !== "number") return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = number, unit = 0;
  while (size >= 1000 && unit < units.length - 1) { size /= 1000; unit += 1; }
  return `${unit && size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

const two = (number) => String(number).padStart(2, "0");
const when = (ms) => { const date = new Date(ms); return Number.isNaN(date.getTime()) ? undefined : date; };
const iso = (ms) => when(ms)?.toISOString() ?? "";
const clock = (ms) => { const d = when(ms); return d ? `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}` : "–"; };
const day = (ms) => { const d = when(ms); return d ? `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}` : "–"; };
const clockOrDay = (ms) => Date.now() - ms > 86_400_000 ? `${day(ms)} ${clock(ms).slice(0, 5)}` : clock(ms);
const millis = (ms) => String(new Date(ms).getMilliseconds()).padStart(3, "0");

function zone() {
  const minutes = -new Date().getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "−" : "+"}${Math.floor(size / 60)}${size % 60 ? `:${two(size % 60)}` : ""}`;
}

// MARK: Elements

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    node.append(child);
  }
  return node;
}

/** An element; what it contains are elements, and strings that become text. */
const h = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
const SVG = "http://www.w3.org/2000/svg";
const s = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

/** A value from an event: isolated from the direction of the text around it, and cut. */
const v = (value, max = 160) => h("bdi", {}, visible(cut(plain(value), max)));
const hidden = (text) => h("span", { class: "hidden-text" }, text);
const soft = (...children) => h("span", { class: "faint" }, children);
const p = (...children) => h("p", {}, children);
const code = (...children) => h("code", {}, children);
const figureCell = (text) => h("td", { class: "number" }, text);
const faint = (...children) => h("p", { class: "faint" }, children);
/** A box that the keyboard can reach and scroll. */
const scroller = (label, name, child) => h("div", { class: name, tabindex: "0", role: "region", "aria-label": label }, child);
const button = (action, label, attributes = {}) => h("button", { type: "button", "data-act": action, ...attributes }, label);

/** A table: heads are names, those of numbers in an array; `caption` is for screen readers. */
const table = (caption, heads, rows, attributes = {}) => h("table", attributes, h("caption", { class: "hidden-text" }, caption),
  h("thead", {}, h("tr", {}, heads.map((head) => Array.isArray(head)
    ? head.map((name) => h("th", { scope: "col", class: "number" }, name)) : h("th", { scope: "col" }, head)))),
  h("tbody", {}, rows));

/** Makes `old` what `fresh` is and leaves alone what is the same; open details stay open. */
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) { old.replaceWith(fresh); return; }
  if (old.nodeType !== Node.ELEMENT_NODE) { if (old.data !== fresh.data) old.data = fresh.data; return; }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  morphChildren(old, [...fresh.childNodes]);
}

function morphChildren(parent, fresh) {
  const old = [...parent.childNodes];
  fresh.forEach((node, index) => old[index] ? morph(old[index], node) : parent.append(node));
  old.slice(fresh.length).forEach((node) => node.remove());
}

const draw = (id, ...children) => morphChildren(el(id), children.flat(Infinity).filter(Boolean));

function sparkline(values, width, height, label) {
  const numbers = (Array.isArray(values) ? values : []).map((value) => Number(value) || 0);
  const max = Math.max(1, ...numbers), step = width / Math.max(1, numbers.length - 1);
  const points = numbers.map((value, i) => `${(i * step).toFixed(1)},${(height - 1 - (value / max) * (height - 3)).toFixed(1)}`);
  return s("svg", { class: "spark", role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`, width, height, preserveAspectRatio: "none" },
    points.length > 1 && s("polygon", { class: "spark-area", points: `0,${height} ${points.join(" ")} ${width},${height}` }),
    points.length > 1 && s("polyline", { class: "spark-line", points: points.join(" ") }));
}

// MARK: The server

/** An answer that is not a good one: what happened, in words, and what to do. */
class Refusal extends Error {
  constructor(status, text = "") {
    super(text || `status ${status}`);
    this.status = status;
    this.text = cut(text.trim(), 500);
  }

  /** A title, an explanation, and a command that helps. */
  words() {
    switch (this.status) {
      case 0: return ["The server does not answer.", "It may have been stopped. This page asks again by itself. To start it:", "waybill live --data DIRECTORY"];
      case 400: return ["The server does not understand this.", this.text];
      case 401: return ["This page needs its token.", "Open the address that `waybill live` printed when it started; it ends with #t= and the token."];
      case 404: return ["This is not here.", this.text || "It may be older than what the server keeps; the archive has it."];
      case 421: return [`This server does not answer to the name ${location.host}.`, "Open the address that it printed, or start it with this name:", `waybill live --host ${location.hostname}`];
      case 503: return ["Too many pages are open.", this.text || "Close another page of this server; this one asks again by itself."];
      default: return [`The server answered with ${this.status}.`, this.text];
    }
  }
}

async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0);
  }
  if (!answer.ok) {
    const text = await answer.text().catch(() => "");
    let said = text;
    try { said = JSON.parse(text).error ?? text; } catch { /* The answer is text. */ }
    throw new Refusal(answer.status, plain(said));
  }
  return answer;
}

async function get(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== "") query.append(name, one);
  }
  const answer = await request(query.size ? `${path}?${query}` : path, { signal });
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(answer.status, "The answer cannot be read.");
  }
}

const isAbort = (error) => error?.name === "AbortError";

function refusalNodes(error) {
  const [title, text, command] = error instanceof Refusal ? error.words() : ["Something went wrong.", String(error)];
  return [h("b", {}, title), " ", text && v(text, 500), command && " ", command && code(command)];
}

function notice(error) {
  const box = el("notice");
  box.hidden = !error;
  if (error) draw("notice", p(refusalNodes(error)));
}

/** Says something to a screen reader; the feed itself is not read out. */
const announce = (text) => { if (el("announce").textContent !== text) el("announce").textContent = text; };

/** Shows a refusal where it belongs; a missing token asks for it. */
function report(error) {
  if (isAbort(error)) return;
  if (error instanceof Refusal && error.status === 401) askForToken();
  notice(error);
}

// MARK: State

const stored = {
  read(key, fallback) { try { return JSON.parse(localStorage.getItem(`waybill.${key}`)) ?? fallback; } catch { return fallback; } },
  write(key, value) { try { localStorage.setItem(`waybill.${key}`, JSON.stringify(value)); } catch { /* Private windows keep nothing. */ } },
};

const state = {
  filter: "", cursor: undefined, status: undefined, envs: new Set(),
  isPaused: false, isPressed: false, isScrolled: false, connection: "connecting",
  isPolling: false, route: { view: "live" }, selected: undefined, open: undefined,
};

// Newest first. An item is a row, or a gap: {gap: true, at, count, text}.
const feed = { items: [], held: [], heldGap: 0, max: ROWS_MAX, seen: 0, matched: 0, dropped: 0, answer: undefined, isComplete: false, isCleared: false };

/** Compares two positions, which are "offset" or "offset.line"; undefined is before all. */
function compare(a, b) {
  if (a === b) return 0;
  const left = parts(a), right = parts(b);
  return left[0] - right[0] || left[1] - right[1];
}

function parts(at) {
  const text = String(at ?? "-1"), dot = text.indexOf(".");
  return dot < 0 ? [Number(text), 0] : [Number(text.slice(0, dot)), Number(text.slice(dot + 1))];
}

const isRow = (item) => !item.gap;
const rowKey = (row) => row.id ? row.id : `@${row.at}`;
const personKey = (row) => row.user ?? row.anon;

// MARK: Columns

const time = (ms, withMillis) => h("time", { datetime: iso(ms), title: iso(ms) }, clock(ms), withMillis && h("span", { class: "ms" }, `.${millis(ms)}`));
const link = (hash, text, attributes = {}) => h("a", { href: hash, ...attributes }, text);
const eventHash = (row) => `#/event/${encodeURIComponent(rowKey(row))}`;
const personHash = (key) => `#/person/${encodeURIComponent(key)}`;
const queryHash = (filter) => filter ? `#/q/${encodeURIComponent(filter)}` : "#/";
const term = (key, value) => /^[^\s"]+$/.test(value) ? `${key}:${value}` : `${key}:"${value.replace(/"/g, "")}"`;

function kindChip(kind) {
  const known = ["screen", "action", "event", "user", "meta"].includes(kind) ? kind : "line";
  return h("span", { class: `kind kind-${known}` }, kind ? v(kind, 20) : "line");
}

function title(row) {
  return row.kind === "screen" && row.screen ? row.screen : row.name ?? "(no name)";
}

function where(row) {
  if (row.kind === "screen") {
    if (!row.prev) return "";
    return [h("span", {}, "from "), v(row.prev, 60), typeof row.prev_ms === "number" ? `, ${duration(row.prev_ms)}` : ""];
  }
  return row.screen ? ["on ", v(row.screen, 60)] : "";
}

function flags(row) {
  return (Array.isArray(row.new) ? row.new : []).slice(0, 3).map((what) =>
    h("span", { class: "flag", title: "Seen for the first time" }, what === "name" ? "new name" : what.includes(":") ? ["new type ", v(what, 40)] : ["new ", v(what, 40)]));
}

function person(row, tabindex) {
  const key = personKey(row);
  if (!key) return soft("no person");
  return link(personHash(key), v(row.user ?? `install ${String(row.anon).slice(0, 8)}`, 40), { tabindex, class: row.user ? "person" : "person install", title: cut(visible(String(key)), 300) });
}

function refusals(row) {
  if (!row.refused || !state.status?.providers?.length) return soft("–");
  const names = Object.keys(row.refused);
  if (!names.length) return h("span", { class: "good", title: "No provider refuses it" }, h("span", { "aria-hidden": "true" }, "✓"), hidden("no provider refuses it"));
  const all = names.map((name) => `${name}: ${row.refused[name]}`).join("\n");
  return h("span", { class: "pill refused", title: cut(visible(all), 1000) }, names.length === 1 ? ["refused: ", v(names[0], 30)] : `refused: ${names.length}`);
}

const COLUMNS = {
  received: { title: "Received", note: zone, cell: (row) => time(row.received, true) },
  tracked: { title: "Tracked", note: zone, cell: (row) => time(row.ts, true) },
  delay: {
    title: "Delay", cell: (row) => h("span", {
      class: Math.abs(row.delay) > SLOW_MS ? "slow" : undefined,
      title: row.delay < 0 ? "The device's clock is ahead of the receiver's" : "From tracked to received",
    }, duration(row.delay)),
  },
  kind: { title: "Kind", cell: (row) => kindChip(row.kind) },
  event: { title: "Event", cell: (row) => [link(eventHash(row), v(title(row), 120), { class: "event-link", tabindex: "-1" }), flags(row)] },
  where: { title: "Where", cell: where },
  person: { title: "Person", cell: (row) => person(row, "-1") },
  env: { title: "Environment", cell: (row) => v(row.env, 40) },
  app: { title: "App", cell: (row) => v(row.app, 60) },
  version: { title: "Version", cell: (row) => v(row.version, 40) },
  providers: { title: "Providers", cell: refusals },
};
const STANDARD = ["received", "delay", "kind", "event", "where", "person", "providers"];

let columns = stored.read("columns", STANDARD);
if (!Array.isArray(columns) || !columns.every((name) => typeof name === "string") || !columns.includes("event")) columns = STANDARD;

const ownColumns = () => columns.filter((name) => !COLUMNS[name]);

function cell(row, name) {
  const known = COLUMNS[name];
  return h("td", { class: known ? `col-${name}` : "col-own" }, known ? known.cell(row) : v(row.fields?.[name], 80));
}

function drawHead() {
  el("feed").classList.toggle("many", columns.length > 8);
  draw("feed-head", columns.map((name) => h("th", { scope: "col", class: COLUMNS[name] ? `col-${name}` : "col-own" },
    COLUMNS[name]?.title ?? v(name, 40), COLUMNS[name]?.note && h("span", { class: "note" }, ` ${COLUMNS[name].note()}`))));
}

// MARK: The table

function rowElement(item) {
  if (item.gap) {
    return h("tr", { class: "gap", "data-at": item.at }, h("td", { colspan: columns.length },
      item.text ?? `${plural(item.count, "event")} not loaded here `, item.text ? undefined : button("fill-gap", "Load", { "data-at": item.at, "aria-label": `Load ${plural(item.count, "event")}` })));
  }
  return h("tr", {
    tabindex: item.at === state.selected ? "0" : "-1", "data-at": item.at, "data-key": rowKey(item),
    "aria-current": rowKey(item) === state.open ? "true" : undefined,
  }, columns.map((name) => cell(item, name)));
}

const elementOf = (at) => at === undefined ? null : el("rows").querySelector(`tr[data-at="${CSS.escape(String(at))}"]`);
const itemOf = (at) => feed.items.find((item) => item.at === at && isRow(item));

/** Draws the whole table. */
function drawRows() {
  el("rows").replaceChildren(...feed.items.map(rowElement));
  if (!feed.items.some((item) => item.at === state.selected)) state.selected = undefined;
  anchorFocus();
  drawEnd();
  drawShown();
}

/** One row can be reached with the Tab key: the selected one, or the first. */
function anchorFocus() {
  const first = el("rows").querySelector("tr:not(.gap)");
  const wanted = elementOf(state.selected) ?? first;
  for (const row of el("rows").querySelectorAll('tr[tabindex="0"]')) if (row !== wanted) row.tabIndex = -1;
  if (wanted) wanted.tabIndex = 0;
}

/** Items merged into a list by position, the newest first. */
function merged(list, items) {
  const byAt = new Map(list.map((item) => [`${item.gap ? "g" : ""}${item.at}`, item]));
  for (const item of items) byAt.set(`${item.gap ? "g" : ""}${item.at}`, item);
  return [...byAt.values()].sort((a, b) => compare(b.at, a.at) || (a.gap ? 1 : 0) - (b.gap ? 1 : 0));
}

function isReading() {
  return state.isPressed || state.isScrolled || (el("rows").contains(document.activeElement) && document.activeElement.matches(":focus-visible") && elementOf(feed.items.find(isRow)?.at) !== document.activeElement);
}

const isHeld = () => state.isPaused || isReading();

let arriving = [];

/** Takes new items; they are drawn together with all that come before the next frame. */
function take(items) {
  if (!items.length) return;
  if (!arriving.length) requestAnimationFrame(drawArriving);
  arriving.push(...items);
}

/** A list with items, which most often are all newer. */
function joined(list, items) {
  const sorted = merged([], items);
  return list.length && compare(sorted.at(-1).at, list[0].at) <= 0 ? merged(list, items) : [...sorted, ...list];
}

/** New items: into the table, or aside while it is paused or read. */
function drawArriving() {
  const items = arriving;
  arriving = [];
  if (isHeld()) {
    feed.held = joined(feed.held, items);
    if (feed.held.length > HELD_MAX) {
      const cutOff = feed.held.splice(HELD_MAX);
      feed.heldGap += cutOff.reduce((sum, item) => sum + (item.gap ? item.count ?? 0 : 1), 0);
    }
    drawShown();
    return;
  }
  insert(items);
}

function insert(items) {
  const newest = feed.items[0]?.at;
  const isPlain = newest === undefined || items.every((item) => compare(item.at, newest) > 0);
  const before = feed.items.length;
  feed.items = joined(feed.items, items);
  const added = feed.items.length - before;
  const surplus = feed.items.splice(feed.max);
  if (surplus.length) feed.isComplete = false;
  feed.isCleared = false;
  if (isPlain) {
    const fresh = feed.items.slice(0, added).map(rowElement);
    if (newest !== undefined && fresh.length < 10) fresh.forEach((row) => row.classList.add("fresh"));
    el("rows").prepend(...fresh);
    for (let surplus = el("rows").childElementCount - feed.items.length; surplus > 0; surplus -= 1) el("rows").lastElementChild.remove();
    anchorFocus();
    drawEnd();
    drawShown();
  } else {
    drawRows();
  }
}

/** Puts what was held into the table. */
function release() {
  const held = feed.held;
  if (feed.heldGap) held.push({ gap: true, at: held.at(-1).at, count: feed.heldGap });
  feed.held = [];
  feed.heldGap = 0;
  if (held.length > feed.max) {
    const rest = held.splice(feed.max - 1);
    held.push({ gap: true, at: held.at(-1).at, count: rest.reduce((sum, item) => sum + (item.gap ? item.count ?? 0 : 1), 0) });
  }
  insert(held);
  drawShown();
}

/** Loads what is missing below the item at `at`, up to the next row that is there. */
async function fillGap(at) {
  const index = feed.items.findIndex((item) => item.gap && item.at === at);
  if (index < 0) return;
  const gap = feed.items[index], lower = feed.items.slice(index + 1).find(isRow)?.at;
  const upper = feed.items.slice(0, index).findLast(isRow)?.at;
  const answer = await get("/api/events", query({ before: upper, limit: PAGE_SIZE }));
  const rows = answer.rows ?? [];
  const between = rows.filter((row) => compare(row.at, lower) > 0);
  const isClosed = between.length < rows.length || rows.length < PAGE_SIZE;
  feed.items = feed.items.filter((item) => item !== gap);
  feed.max += between.length;
  const left = Math.max(1, gap.count - between.length);
  feed.items = merged(feed.items, [...between, ...(isClosed ? [] : [{ gap: true, at: between.at(-1).at, count: left }])]);
  drawRows();
}

async function loadOlder() {
  const answer = await get("/api/events", query({ before: feed.items.findLast(isRow)?.at, limit: PAGE_SIZE }));
  const rows = answer.rows ?? [];
  feed.max += rows.length;
  feed.isComplete = rows.length < PAGE_SIZE;
  feed.answer = answer;
  feed.items = merged(feed.items, rows);
  drawRows();
}

function drawEnd() {
  const hasRows = feed.items.some(isRow);
  const looked = feed.answer?.scanned !== undefined ? `Looked at ${plural(feed.answer.scanned, "kept event")}` : "";
  const since = feed.answer?.oldest ? ` since ${clockOrDay(feed.answer.oldest)}` : "";
  let content;
  if (!feed.answer && !hasRows) content = faint(state.connection === "connecting" ? "Loading…" : "");
  else if (feed.isCleared && !hasRows) content = [p("The list is cleared. New events appear here."), button("reload", "Show what is kept")];
  else if (!hasRows) {
    content = state.filter
      ? [p(h("b", {}, "No event matches this filter.")), faint(looked && `${looked}${since}. `, "New ones that match appear here."), button("no-filter", "Remove the filter")]
      : [p(h("b", {}, "No events yet.")), faint("They appear here as soon as the receiver has stored them.")];
  } else if (feed.isComplete) content = faint(looked ? `${looked}${since}. Older ones are in the archive: see Reports.` : "");
  else content = button("older", "Load older");
  draw("feed-end", content);
}

function shownText() {
  const parts = [];
  const pending = feed.held.filter(isRow).length + feed.heldGap;
  if (state.isPaused) parts.push(`paused · ${count(pending)} new`);
  parts.push(`${count(feed.items.filter(isRow).length)} shown`);
  if (state.filter && feed.seen) parts.push(`${count(feed.matched)} of ${count(feed.seen)} new match`);
  if (feed.dropped) parts.push(`${count(feed.dropped)} not sent`);
  return parts;
}

function drawShown() {
  const parts = shownText(), pending = feed.held.filter(isRow).length + feed.heldGap;
  draw("shown", parts.join(" · "));
  el("shown").classList.toggle("is-paused", state.isPaused);
  const chip = el("fresh");
  chip.hidden = state.isPaused || !pending;
  if (!chip.hidden) draw("fresh", `${count(pending)} new `, h("span", { "aria-hidden": "true" }, "↑"));
  document.title = `${state.isPaused ? `(${count(pending)}) ` : ""}Waybill ${state.route.view === "event" || state.route.view === "person" ? "live" : state.route.view}`;
}

function pause(isPaused) {
  state.isPaused = isPaused;
  el("pause").setAttribute("aria-pressed", String(isPaused));
  el("pause-word").textContent = isPaused ? "Go on" : "Pause";
  if (isPaused) announce("Paused. New events are kept.");
  else {
    const pending = feed.held.filter(isRow).length + feed.heldGap;
    release();
    announce(`Going on. ${plural(pending, "new event")}.`);
  }
  drawShown();
}

// MARK: The stream

const query = (more = {}) => ({ q: state.filter || undefined, fields: ownColumns().join(",") || undefined, ...more });

let connection = new AbortController();
let run = 0;

function setConnection(name) {
  state.connection = name;
  const words = { connecting: "connecting", live: "live", polling: "live, every 2 s", resting: "resting", waiting: "not connected" };
  el("state").dataset.state = name;
  el("state-word").textContent = words[name];
  el("state").title = name === "polling" ? "Other pages of this browser hold the streams; this one asks each 2 s" : name === "resting" ? "This page is hidden and has given its stream back" : "";
}

const delay = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
});

/** A place among the streams of this browser, to be called when it is given back; undefined when all are taken. */
async function takePlace() {
  if (!navigator.locks) return () => {};
  for (let number = 0; number < STREAMS_MAX; number += 1) {
    const place = await new Promise((resolve) => {
      navigator.locks.request(`waybill-stream-${number}`, { ifAvailable: true }, (lock) => {
        if (!lock) { resolve(undefined); return undefined; }
        return new Promise((giveBack) => resolve(giveBack));
      });
    });
    if (place) return place;
  }
  return undefined;
}

/** Loads what is kept, then follows; ends when another run begins. */
async function follow() {
  const mine = ++run;
  connection.abort();
  let wait = 500;
  while (mine === run) {
    connection = new AbortController();
    const { signal } = connection;
    try {
      if (document.hidden) {
        setConnection("resting");
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        continue;
      }
      if (!feed.answer) await load(signal);
      const place = await takePlace();
      try {
        if (signal.aborted) continue;
        if (place) await stream(signal, () => { wait = 500; });
        else await poll(signal);
      } finally { place?.(); }
    } catch (error) {
      if (mine !== run || signal.aborted) continue;
      if (error instanceof Refusal && error.status === 400) { filterProblem(error); setConnection("waiting"); return; }
      setConnection("waiting");
      report(error);
      if (el("access-dialog").open) return;
      await delay(wait, signal);
      wait = Math.min(wait * 2, 8000);
    }
  }
}

/** The newest rows that are kept. */
async function load(signal) {
  setConnection("connecting");
  const [answer, status] = await Promise.all([get("/api/events", query({ limit: PAGE_SIZE }), signal), state.status ?? get("/api/status", {}, signal)]);
  filterProblem(undefined);
  notice(undefined);
  takeStatus(status);
  feed.answer = answer;
  state.cursor = answer.position;
  feed.isComplete = (answer.rows ?? []).length < PAGE_SIZE;
  feed.items = merged([], answer.rows ?? []);
  drawRows();
  announce(`${plural(feed.items.length, "event")} shown.`);
}

async function stream(signal, opened) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query())) if (value !== undefined) parameters.append(name, value);
  const headers = { Accept: "text/event-stream" };
  if (state.cursor !== undefined) headers["Last-Event-ID"] = String(state.cursor);
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  signal.addEventListener("abort", () => silence.abort(), { once: true });
  try {
    const answer = await request(`/api/stream?${parameters}`, { signal: silence.signal, headers });
    setConnection("live");
    notice(undefined);
    opened();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Refusal(0);
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      text += value;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const message = text.slice(0, end);
        text = text.slice(end + 2);
        takeMessage(message);
      }
    }
  } catch (error) {
    throw error instanceof Refusal || signal.aborted ? error : new Refusal(0);
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

/** One message of the stream: its lines are `id`, `event`, `data`, or a comment. */
function takeMessage(message) {
  let id, event = "message";
  const data = [];
  for (const line of message.split("\n")) {
    const colon = line.indexOf(":"), name = line.slice(0, colon), value = line.slice(colon + 1).replace(/^ /, "");
    if (name === "id") id = value;
    else if (name === "event") event = value;
    else if (name === "data") data.push(value);
  }
  if (!data.length) return;
  const body = JSON.parse(data.join("\n"));
  if (event === "rows") takeBatch(body, id);
  else if (event === "status") takeStatus(body);
  else if (event === "gone") takeGone(body, id);
  if (id !== undefined) state.cursor = id;
}

function takeBatch(body, id) {
  const rows = body.rows ?? [];
  feed.seen += body.seen ?? 0;
  feed.matched += body.matched ?? 0;
  const items = [...rows];
  if (body.dropped) {
    feed.dropped += body.dropped;
    items.push({ gap: true, at: merged([], rows).at(-1)?.at ?? id, count: body.dropped });
  }
  take(items);
  drawShown();
  refreshPerson(rows, body);
}

function takeGone(body, id) {
  const text = `The journal from ${plain(body.from)} to ${plain(body.to)} was removed by retention before this page read it. The archive has these events.`;
  take([{ gap: true, at: id ?? body.to, count: 0, text }]);
  announce(text);
}

/** Asks each 2 s, while other pages of this browser hold the streams. */
async function poll(signal) {
  const answer = await get("/api/events", query({ limit: PAGE_SIZE }), signal);
  setConnection("polling");
  notice(undefined);
  const newest = merged(feed.held, feed.items).find(isRow)?.at;
  const rows = (answer.rows ?? []).filter((row) => compare(row.at, newest) > 0);
  const items = [...rows];
  if (rows.length === PAGE_SIZE && newest !== undefined) items.push({ gap: true, at: rows.at(-1).at, count: 1, text: undefined });
  feed.answer = answer;
  state.cursor = answer.position;
  take(items);
  takeStatus(await get("/api/status", {}, signal));
  await delay(POLL_MS, signal);
}

document.addEventListener("visibilitychange", () => connection.abort());

function reload() {
  arriving = [];
  Object.assign(feed, { items: [], held: [], heldGap: 0, max: ROWS_MAX, seen: 0, matched: 0, dropped: 0, answer: undefined, isComplete: false, isCleared: false });
  drawRows();
  follow();
}

// MARK: The header and the panels

function takeStatus(status) {
  state.status = status;
  drawFigures(status);
  drawProviders(status);
  drawAgents(status);
  drawSources(status);
  drawQuarantine(status);
  drawEnvironments(status);
  askRefusals(status);
}

const mean = (values) => values.length ? values.reduce((sum, value) => sum + Number(value), 0) / values.length : 0;

function drawFigures(status) {
  const rate = Array.isArray(status.rate) ? status.rate : [], now = mean(rate.slice(-10));
  const perSecond = now < 10 ? now.toFixed(1) : count(Math.round(now));
  draw("spark", sparkline(rate, 150, 26, `Events a second in the last minute, ${perSecond} now`));
  const behind = status.pending ?? (typeof status.journal_end === "number" ? Math.max(0, status.journal_end - Math.floor(Number(status.position) || 0)) : undefined);
  const figure = (value, label, name, hint) => h("div", { class: name, title: hint }, h("dt", {}, label), h("dd", {}, value));
  const unaccounted = status.unaccounted;
  draw("figures", [
    figure(perSecond, "events/s", undefined, "Mean of the last 10 seconds"),
    figure(`${duration(status.delay?.p50)} / ${duration(status.delay?.p99)}`, "delay p50 / p99", undefined, "From tracked on the device to received"),
    figure(status.agents ? count(status.agents.length) : "–", "agents", "wide-only", "Agents that are connected"),
    figure(bytes(behind), "behind", "wide-only", "Bytes of the journal that archive and exports have not yet taken"),
    figure(unaccounted === undefined || unaccounted === null ? "–" : count(unaccounted), "unaccounted",
      unaccounted ? "is-bad" : unaccounted === 0 ? "is-good" : undefined, "Events that no provider's numbers explain: always 0"),
  ]);
}

const panelHead = (id, text, note) => h("div", { class: "panel-head" }, h("h2", { id: `${id}-title` }, text), note && h("p", { class: "note" }, note));
const number = (value, className) => h("td", { class: `number ${className ?? ""}` }, typeof value === "number" ? count(value) : "–");

function drawProviders(status) {
  const providers = status.providers ?? [];
  const body = providers.flatMap((one) => {
    const reasons = (one.reasons ?? []).filter((reason) => reason.count), skips = Object.entries(one.skips ?? {}).filter(([, n]) => n);
    const notes = [
      ...reasons.map((reason) => link(queryHash(`${term("refused", one.name)} ${term("reason", shortReason(reason.reason))}`), [v(shortReason(reason.reason), 60), ` × ${count(reason.count)}`])),
      ...skips.map(([name, n]) => h("span", {}, "skipped: ", v(name, 40), ` × ${count(n)}`)),
      one.delivered ? h("span", {}, `delivered ${count(one.delivered)}`) : undefined,
      one.dead ? h("span", { class: "bad" }, `dead letters ${count(one.dead)}`) : undefined,
    ].filter(Boolean);
    return [
      h("tr", { class: notes.length ? "has-notes" : undefined },
        h("th", { scope: "row" }, one.refused ? link(queryHash(term("refused", one.name)), v(one.name, 40)) : v(one.name, 40)),
        number(one.exported), number(one.refused, one.refused ? "bad" : "faint"), number(one.skipped, "faint"), number(one.held, one.held ? "slow" : "faint"),
        h("td", { class: "spark-cell" }, sparkline(one.rate, 64, 18, `${one.name}: exported a second, last minute`))),
      notes.length ? h("tr", { class: "notes" }, h("td", { colspan: "6" }, h("ul", {}, notes.map((note) => h("li", {}, note))))) : undefined,
    ];
  });
  draw("providers", panelHead("providers", "Providers", "since the receiver started"),
    status.receiver && h("p", { class: "problem" }, "The receiver does not answer: ", v(status.receiver, 300)),
    providers.length ? table("Events by provider", [hidden("provider"), ["exported", "refused", "skipped", "held"], "exported/s"], body)
      : faint("No provider is known: name the receiver's configuration with ", code("--config"), "."));
}

const shortReason = (reason) => String(reason ?? "").replace(/^[\w-]+\./, "");

function drawAgents(status) {
  const agents = status.agents;
  draw("agents", panelHead("agents", "Agents", agents && `${count(agents.length)} connected`),
    !agents ? faint("Start with ", code("--receiver"), " to see which agents are connected.")
      : !agents.length ? faint("No agent is connected.")
        : table("Connected agents", ["name", ["streams", "lines", "last batch", "since"]], agents.map((one) => h("tr", {},
          h("th", { scope: "row", title: cut(visible(plain(one.peer)), 100) }, h("span", { class: "dot good-dot", "aria-hidden": "true" }), v(one.name, 40)),
          number(one.streams), number(one.lines), figureCell(ago(one.last_batch, status.time)), figureCell(typeof one.since === "number" ? clockOrDay(one.since) : "–")))));
}

const ago = (ms, now) => typeof ms === "number" && ms > 0 ? duration(Math.max(0, (now ?? Date.now()) - ms)) : "–";

function drawSources(status) {
  const sources = status.sources ?? [];
  draw("sources", panelHead("sources", "Sources", "delay = received − tracked"),
    sources.length ? table("Files and spools that events come from", ["source", "app", ["lines", "last", "p50", "p99"]], sources.map((one) => h("tr", {},
      h("th", { scope: "row", title: cut(visible(plain(one.source)), 300) }, v(tail(one.source ?? one.stream), 26)),
      h("td", { class: "faint" }, link(queryHash([one.app && term("app", one.app), one.env && term("env", one.env)].filter(Boolean).join(" ")), [v(lastPart(one.app), 24), " ", v(one.env, 16)]),
        (one.via ?? []).map((dialect) => [" ", link(queryHash([one.app && term("app", one.app), term("via", dialect)].filter(Boolean).join(" ")), [v(dialect, 20)], { class: "pill", title: "Sent as" })])),
      number(one.lines), figureCell(ago(one.last, status.time)), figureCell(duration(one.p50)), h("td", { class: `number ${one.p99 > SLOW_MS ? "slow" : ""}` }, duration(one.p99)))))
      : faint("No events have arrived."));
}

const lastPart = (text) => plain(text).split(".").at(-1);
const tail = (text) => { const path = plain(text).split("/"); return path.at(-1) || plain(text); };

function drawQuarantine(status) {
  const list = status.quarantine ?? [], counts = Object.entries(status.quarantined ?? {});
  draw("quarantine", panelHead("quarantine", "Quarantine", counts.map(([reason, n]) => `${reason} ${count(n)}`).join(" · ")),
    list.length ? h("ul", { class: "lines" }, list.map((one) => h("li", {},
      h("time", { datetime: iso(one.received) }, clock(one.received)), h("span", { class: "pill refused" }, v(one.reason, 30)),
      one.position !== undefined ? link(`#/event/${encodeURIComponent(`@${one.position}`)}`, v(one.line, 90), { class: "mono" }) : h("span", { class: "mono" }, v(one.line, 90)))))
      : faint(counts.length ? "The latest lines are not kept here." : "Every line is an event."));
}

/** What each provider refused last; the server keeps some for each reason, however many there are of another. */
async function askRefusals(status) {
  const total = (status.providers ?? []).reduce((sum, one) => sum + (one.refused ?? 0), 0);
  if (total === refused.total || Date.now() - refused.asked < 5000) return;
  Object.assign(refused, { total, asked: Date.now() });
  const list = await get("/api/refusals").catch(() => []);
  el("refusals").hidden = !list.length;
  draw("refusals", panelHead("refusals", "Refused", "the latest for each reason"), list.map((one) => h("details", {},
    h("summary", {}, h("b", {}, v(one.provider, 40)), " ", v(shortReason(one.reason), 60)),
    h("ul", { class: "lines" }, (one.rows ?? []).map((row) => h("li", {}, time(row.received), link(eventHash(row), v(title(row), 60)), soft(v(personKey(row), 20))))))));
}

const refused = { total: 0, asked: 0 };

function drawEnvironments(status) {
  for (const one of [...(status.sources ?? []), ...feed.items]) if (one.env && state.envs.size < 6) state.envs.add(one.env);
  const names = [...state.envs].sort();
  draw("envs", names.length < 2 ? [] : names.map((name) => button("env", v(name, 16), { "data-env": name, "aria-pressed": String(filterHas(term("env", name))) })));
}

// MARK: The filter

const words = (filter) => filter.match(/-?(?:[^\s":]+:)?"[^"]*"?|\S+/g) ?? [];
const filterHas = (word) => words(state.filter).includes(word);

function toggleWord(word, replaced = () => false) {
  const list = words(state.filter);
  const rest = list.filter((one) => one !== word && !replaced(one));
  go(queryHash((list.includes(word) ? rest : [...rest, word]).join(" ")));
}

function filterProblem(error) {
  const box = el("filter-problem");
  box.hidden = !error;
  el("filter").setAttribute("aria-invalid", String(Boolean(error)));
  draw("filter-problem", error ? v(error.text || "This filter cannot be read.", 300) : []);
}

function setFilter(filter) {
  if (document.activeElement !== el("filter")) el("filter").value = filter;
  if (filter === state.filter && feed.answer) return;
  state.filter = filter;
  el("refused-only").setAttribute("aria-pressed", String(filterHas(ANY_REFUSED)));
  if (state.status) drawEnvironments(state.status);
  reload();
}

// MARK: An event

/** A JSON text with indentation and colours, token by token: numbers, order and repeated members stay as they are. */
function pretty(text) {
  const out = [];
  let depth = 0, isNew = false;
  const line = () => { isNew = true; };
  const put = (node) => { if (isNew) { out.push(`\n${"  ".repeat(depth)}`); isNew = false; } out.push(node); };
  const tokens = text.match(/"(?:[^"\\]|\\.)*"?|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  tokens.forEach((token, index) => {
    if (token === "{" || token === "[") {
      put(token);
      if (!/^[}\]]$/.test(tokens[index + 1] ?? "")) { depth += 1; line(); }
    } else if (token === "}" || token === "]") {
      if (!/^[{[]$/.test(tokens[index - 1] ?? "")) { depth = Math.max(0, depth - 1); line(); }
      put(token);
    } else if (token === ",") { out.push(","); line(); }
    else if (token === ":") out.push(": ");
    else {
      const kind = token[0] !== '"' ? "json-word" : tokens[index + 1] === ":" ? "json-key" : "json-text";
      put(h("span", { class: kind }, long(token)));
    }
  });
  return out;
}

const long = (token) => visible(token.length > 2000 ? `${token.slice(0, 2000)}… (${count(token.length)} characters)` : token);

const isJSON = (text) => { try { return typeof JSON.parse(text) === "object"; } catch { return false; } };

/** A block of code that can be reached and scrolled by keyboard. */
function codeBlock(text, label) {
  const content = text.length <= 300_000 && isJSON(text) ? pretty(text) : visible(cut(text, 20_000));
  return [h("pre", { tabindex: "0", role: "region", "aria-label": label }, content),
    text.length > 20_000 && faint(`${count(text.length)} characters; Copy takes all of them.`)];
}

let shown = { raw: "" };

function outcomeElement(one) {
  const record = one.record === undefined || one.record === null ? "" : plain(one.record);
  const changes = Object.entries(one.changes ?? {}).filter(([, n]) => n);
  const head = [h("span", { class: "provider" }, v(one.provider, 40)), h("span", { class: `pill ${["exported", "refused", "held", "skipped"].includes(one.outcome) ? one.outcome : ""}` }, v(one.outcome, 20)),
    h("span", { class: "why" }, one.reason && v(shortReason(one.reason), 60), changes.length ? changes.map(([name, n]) => [" ", v(name, 40), n > 1 ? ` × ${count(n)}` : ""]) : undefined)];
  const body = [
    one.detail && p(v(one.detail, 1000)),
    one.field && p("Field: ", code(v(one.field, 200))),
    changes.length > 0 && p("Changed for this provider: ", changes.map(([name, n], i) => [i ? ", " : "", code(v(name, 60)), ` × ${count(n)}`])),
    record && codeBlock(record, `Record for ${one.provider}`),
  ].filter(Boolean);
  return body.length ? h("details", { class: "outcome" }, h("summary", {}, head), h("div", { class: "outcome-body" }, body)) : h("div", { class: "outcome flat" }, head);
}

const detailHead = (text, ...more) => h("div", { class: "detail-head" }, h("h2", { id: "detail-title" }, text), ...more,
  button("back", ["Back ", h("kbd", { "aria-hidden": "true" }, "esc")]));

async function showEvent(key) {
  await openDetail(async () => {
    const parameters = key.startsWith("@") ? { at: key.slice(1) } : { id: key };
    const row = await get("/api/event", parameters);
    shown = row;
    return eventNodes(row);
  }, "event", key);
}

function eventNodes(row) {
  const raw = typeof row.raw === "string" ? row.raw : JSON.stringify(row.event ?? {});
  const outcomes = row.outcomes ?? [], tally = ["exported", "refused", "held", "skipped"].map((name) => [name, outcomes.filter((one) => one.outcome === name).length]).filter(([, n]) => n);
  const key = personKey(row), facts = [row.env, row.app, row.version].filter(Boolean);
  return [
    detailHead(row.quarantined ? "Line in quarantine" : v(title(row), 200)),
    h("div", { class: "facts" },
      p(kindChip(row.kind), " ", row.kind === "screen" && row.name ? code(v(row.name, 80)) : undefined, " ", flags(row)),
      p(facts.map((fact, i) => [i ? " · " : "", v(fact, 80)])),
      p(row.ts ? ["tracked ", time(row.ts, true), ` on ${day(row.ts)}, `] : undefined, row.received ? ["received ", time(row.received, true)] : undefined, typeof row.delay === "number" ? `, ${duration(row.delay)} later` : ""),
      row.quarantined ? undefined : p(key ? ["Person ", person(row), row.session ? [" · session ", v(String(row.session).slice(0, 8))] : ""] : soft("No person: the line has neither user nor anon.")),
      h("p", { class: "actions" }, button("copy", ["Copy JSON ", h("kbd", { "aria-hidden": "true" }, "c")]), button("copy-link", "Copy link"),
        row.name && link(queryHash(nameFilter(row)), ["Only this name ", h("kbd", { "aria-hidden": "true" }, "f")], { class: "button" }),
        key && link(personHash(key), ["Timeline ", h("kbd", { "aria-hidden": "true" }, "u")], { class: "button" }))),
    row.quarantined && h("p", { class: "panel bad" }, "The receiver put this line into the quarantine: ", v(row.quarantined, 200)),
    h("section", { class: "panel", "aria-labelledby": "outcomes-title" }, panelHead("outcomes", "What each provider gets", tally.map(([name, n]) => `${n} ${name}`).join(" · ")),
      outcomes.length ? outcomes.map(outcomeElement) : faint("No provider is configured, or this line is not an event.")),
    h("section", { class: "panel", "aria-labelledby": "json-title" }, panelHead("json", isJSON(raw) ? "Event" : "Line"), codeBlock(raw, "The event's line")),
    h("section", { class: "panel", "aria-labelledby": "stored-title" }, panelHead("stored", "Where it is stored"),
      h("dl", { class: "pairs" }, [["Journal", row.at], ["Id", row.id], ["Source", row.source], ["Stream", row.stream], ["File", row.file], ["Offset", row.offset]]
        .filter(([, value]) => value !== undefined && value !== null && value !== "").map(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, v(value, 400))]))),
  ].filter(Boolean);
}

const nameFilter = (row) => row.kind === "screen" && row.screen ? `kind:screen ${term("screen", row.screen)}` : term("name", row.name ?? "");

/** Opens the right side for an event or a person, and draws what `make` brings. */
async function openDetail(make, kind, key) {
  const token = `${kind} ${key}`;
  const isSame = el("detail").dataset.token === token;
  el("detail").dataset.token = token;
  state.open = kind === "event" ? key : undefined;
  markOpen();
  el("overview").hidden = true;
  el("detail").hidden = false;
  document.body.classList.add("has-detail");
  el("side").setAttribute("aria-label", kind === "event" ? "Event" : "Person");
  if (!isSame) { draw("detail", [detailHead("…")]); el("side").scrollTop = 0; }
  try {
    const nodes = await make();
    if (el("detail").dataset.token !== token) return;
    draw("detail", nodes);
    if (!isSame && window.matchMedia("(max-width: 1000px)").matches) el("detail").focus();
  } catch (error) {
    if (isAbort(error) || el("detail").dataset.token !== token) return;
    if (error.status === 401) report(error);
    const isMissing = error.status === 404;
    draw("detail", [detailHead(!isMissing ? "No answer" : kind === "event" ? "This event is not kept here." : "No event of this person is kept here."),
      h("div", { class: "facts" }, p(isMissing ? "It may be older than what the server keeps, or it has not arrived yet." : refusalNodes(error)))]);
  }
}

function closeDetail() {
  if (el("detail").hidden) return;
  delete el("detail").dataset.token;
  state.open = undefined;
  markOpen();
  el("detail").hidden = true;
  el("overview").hidden = false;
  document.body.classList.remove("has-detail");
  el("side").setAttribute("aria-label", "Pipeline");
  el("side").scrollTop = 0;
}

function markOpen() {
  for (const row of el("rows").querySelectorAll("tr[aria-current]")) row.removeAttribute("aria-current");
  if (state.open !== undefined) el("rows").querySelector(`tr[data-key="${CSS.escape(state.open)}"]`)?.setAttribute("aria-current", "true");
}

// MARK: A person

const people = { key: undefined, rows: [], anons: [], isComplete: false, asked: 0, timer: undefined };

async function showPerson(key) {
  if (people.key !== key) Object.assign(people, { key, rows: [], anons: [], isComplete: false });
  await openDetail(async () => { await askPerson(); return personNodes(); }, "person", key);
}

async function askPerson(before) {
  const key = people.key, answer = await get("/api/person", { key, before });
  if (people.key !== key) return;
  const rows = answer.rows ?? [];
  people.anons = answer.anons ?? people.anons;
  if (before !== undefined || !people.rows.length) people.isComplete = rows.length < PAGE_SIZE;
  people.rows = merged(people.rows, rows);
  people.asked = Date.now();
}

/** New events of the person that is shown appear in the timeline; asked at most each 2 s. */
function refreshPerson(rows, body) {
  if (state.route.view !== "person" || people.timer || !(body.seen > 0)) return;
  people.timer = setTimeout(async () => {
    people.timer = undefined;
    if (state.route.view === "person") await showPerson(people.key).catch(report);
  }, Math.max(0, 2000 - (Date.now() - people.asked)));
}

const byTime = (a, b) => a.ts - b.ts || compare(a.at, b.at);

function personNodes() {
  const rows = [...people.rows].sort(byTime), sessions = [];
  for (const row of rows) {
    const last = sessions.at(-1);
    if (last && last.session === row.session) last.rows.push(row);
    else sessions.push({ session: row.session, rows: [row] });
  }
  sessions.reverse();
  const isUser = rows.some((row) => row.user === people.key);
  return [
    detailHead(v(people.key, 200)),
    h("div", { class: "facts" },
      p(`${plural(rows.length, "event")} in ${plural(sessions.length, "session")}`, rows.length ? ` since ${clockOrDay(rows[0].ts)}` : ""),
      people.anons.length ? p("Installs: ", people.anons.map((anon, i) => [i ? ", " : "", h("code", { title: cut(visible(plain(anon)), 200) }, v(String(anon).slice(0, 8)))])) : undefined,
      h("p", { class: "actions" }, link(queryHash(term(isUser ? "user" : "anon", people.key)), "Follow only this person", { class: "button" }), button("copy-link", "Copy link"))),
    ...sessions.map(sessionElement),
    people.isComplete ? undefined : h("div", { class: "feed-end" }, button("older-person", "Load older")),
  ].filter(Boolean);
}

/** A session, the newest event first; what a person did before the sign-in is marked. */
function sessionElement({ session, rows }) {
  const first = rows[0], last = rows.at(-1), items = [];
  rows.forEach((row, index) => {
    const before = rows[index - 1];
    if (before && row.ts - before.ts > PAUSE_MS) items.push(h("li", { class: "pause-line" }, `${duration(row.ts - before.ts)} without an event`));
    if (before ? row.anon === before.anon && row.user !== before.user : row.kind === "user" && row.user) {
      items.push(h("li", { class: "sign-line" }, row.user ? ["signed in as ", v(row.user, 60)] : "signed out"));
    }
    items.push(h("li", { class: row.user ? undefined : "unsigned" },
      time(row.ts), kindChip(row.kind), h("span", {}, link(eventHash(row), v(title(row), 80)), " ",
        soft(row.kind === "screen" ? row.prev ? ["after ", duration(row.prev_ms), " on ", v(row.prev, 40)] : "" : row.screen ? ["on ", v(row.screen, 40)] : ""), flags(row),
        row.refused && Object.keys(row.refused).length ? [" ", refusals(row)] : undefined)));
  });
  return h("section", { class: "session", "aria-label": `Session of ${clockOrDay(first.ts)}` },
    h("h3", {}, session ? `Session of ${clockOrDay(first.ts)}` : "Without a session", h("span", { class: "note" }, ` ${duration(last.ts - first.ts)} · ${plural(rows.length, "event")}`)),
    h("ol", { class: "timeline", reversed: true }, items.reverse()));
}

// MARK: Names

const catalogue = { names: [], search: "", open: undefined };

async function showNames() {
  if (!catalogue.names.length) draw("view-names", h("h1", {}, "Names"), faint("Loading…"));
  try {
    const answer = await get("/api/names");
    catalogue.names = answer.names ?? [];
    drawNames();
  } catch (error) { report(error); draw("view-names", h("h1", {}, "Names"), h("p", { class: "problem" }, refusalNodes(error))); }
}

function drawNames() {
  const list = catalogue.names.filter((one) => `${one.name} ${one.kind}`.toLowerCase().includes(catalogue.search.toLowerCase()));
  const conflicts = catalogue.names.filter((one) => one.properties.some((property) => property.conflict)).length;
  draw("view-names",
    h("div", { class: "page-head" }, h("h1", {}, "Names"), faint(`${plural(catalogue.names.length, "name")} in what is kept here${conflicts ? `, ${plural(conflicts, "name")} with a property of two types` : ""}. The report `, code("names"), " counts whole days of the archive."),
      h("div", { class: "page-tools" }, h("label", {}, "Search ", h("input", { type: "search", id: "name-search", value: catalogue.search })), button("names", "Refresh"), h("a", { class: "button", href: "/api/names", download: "names.json" }, "names.json"))),
    scroller("Names and their properties", "table-box", table("Names of events and their properties", ["Name", "Kind", ["Count"], "First seen", "Last seen", "Properties"], list.map(nameRow), { class: "wide-table names" })),
    !list.length && faint("No name matches."));
}

function nameRow(one) {
  return h("tr", {},
    h("th", { scope: "row" }, link(queryHash(`${term("kind", one.kind ?? "event")} ${term(one.kind === "screen" ? "screen" : "name", plain(one.name))}`), v(one.name, 100))),
    h("td", {}, kindChip(one.kind)), number(one.count),
    seen(one.first), seen(one.last),
    h("td", {}, h("ul", { class: "properties" }, one.properties.map((property) => h("li", { class: property.conflict ? "conflict" : undefined },
      code(v(property.path, 60)), " ", property.types.map((type, i) => [i ? ", " : "", property.conflict ? [`${type.type} × ${count(type.count)} in `, v(type.versions.join(", "), 40)] : type.type]),
      property.conflict ? h("b", {}, " two types") : soft(" ", v([...new Set(property.types.flatMap((type) => type.versions))].join(", "), 80)))))));
}

function seen(text) {
  const time = Date.parse(text);
  return h("td", {}, h("time", { datetime: text }, clockOrDay(time)));
}

// MARK: Reports

const REPORTS = {
  overview: ["Overview"], screens: ["Screens"], next: ["Next screens", "screen"], paths: ["Paths before an event", "before"],
  funnel: ["Funnel", "step", "within"], retention: ["Retention", "days"], active: ["Active people", "rule"], breakdown: ["Breakdown", "event"],
  "new-returning": ["New and returning"], versions: ["Versions"], os: ["Systems"], gaps: ["Gaps"], sessions: ["Sessions"],
  arrival: ["Arrival"], providers: ["Providers"], names: ["Names"],
};
const FIELDS = {
  from: ["From", "date"], to: ["To", "date"], env: ["Environment", "text", "prod"], app: ["App", "text", "the only one"], zone: ["Time zone", "text", "the archive's"],
  where: ["Where", "text", "data.tier=FREE"], screen: ["Next after the screen", "text", "Home"], before: ["Paths before the event", "text", "error"],
  step: ["Funnel steps, one a line", "area", "screen=SignUp\nSign Up Tapped"], within: ["Funnel within", "text", "10m"], rule: ["Active by the rule", "text", "screen=Feed>=5"],
  event: ["Breakdown of the event", "text", "login"], by: ["Divide by", "text", "data.method"], days: ["Retention days", "text", "0..30"],
};
const COMMON = ["from", "to", "env", "app", "zone", "where", "by"];
const reports = { answer: undefined, parameters: undefined, asking: undefined };

const standardReports = () => ({ names: "overview,screens,new-returning", from: day(Date.now() - 6 * 86_400_000), to: day(Date.now()) });

function reportParameters(search) {
  const given = new URLSearchParams(search), found = {};
  for (const name of ["names", ...Object.keys(FIELDS)]) if (given.has(name)) found[name] = name === "step" ? given.getAll("step").join("\n") : given.get(name);
  return Object.keys(found).length ? found : undefined;
}

function reportsHash(parameters) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of name === "step" ? value.split("\n") : [value]) if (one.trim()) search.append(name, one.trim());
  }
  return `#/reports?${search}`;
}

function showReports(search) {
  const given = reportParameters(search), parameters = given ?? standardReports();
  const isSame = JSON.stringify(parameters) === JSON.stringify(reports.parameters);
  reports.parameters = parameters;
  if (!isSame || !el("view-reports").childElementCount) {
    el("view-reports").replaceChildren(reportForm(parameters), h("div", { id: "report-result", class: "report-result" }));
  }
  if (given && !(isSame && reports.answer)) askReports(parameters);
}

function field(name, parameters) {
  const [label, type, hint] = FIELDS[name], value = parameters[name] ?? "";
  const input = type === "area" ? h("textarea", { name, rows: "3", placeholder: hint, spellcheck: "false" }, value) : h("input", { type, name, value, placeholder: hint, spellcheck: "false", autocomplete: "off" });
  const owners = Object.keys(REPORTS).filter((report) => REPORTS[report].includes(name));
  return h("label", { "data-for": owners.join(" ") || undefined, class: type === "area" ? "wide" : undefined }, h("span", {}, label), input);
}

function reportForm(parameters) {
  const chosen = new Set((parameters.names ?? "").split(",").filter(Boolean));
  if (chosen.has("all")) Object.keys(REPORTS).forEach((name) => chosen.add(name));
  const form = h("form", { class: "report-form", id: "report-form", "aria-label": "Reports" },
    h("div", { class: "page-head" }, h("h1", {}, "Reports"), faint("Exact numbers from the days of the archive. The address of this page can be shared.")),
    h("div", { class: "fields" }, COMMON.map((name) => field(name, parameters))),
    h("fieldset", {}, h("legend", {}, "Reports"), h("div", { class: "checks" }, Object.entries(REPORTS).map(([name, [label]]) =>
      h("label", {}, h("input", { type: "checkbox", name: "report", value: name, checked: chosen.has(name) }), label)))),
    h("div", { class: "fields", id: "own-fields" }, Object.keys(FIELDS).filter((name) => !COMMON.includes(name)).map((name) => field(name, parameters))),
    h("p", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Show reports"), button("copy-link", "Copy link")));
  revealFields(form);
  return form;
}

/** Shows the fields of the reports that are chosen. */
function revealFields(form) {
  const chosen = new Set(new FormData(form).getAll("report"));
  for (const label of form.querySelectorAll("label[data-for]")) label.hidden = !label.dataset.for.split(" ").some((name) => chosen.has(name));
}

function submitReports(form) {
  const data = new FormData(form), parameters = { names: data.getAll("report").join(",") };
  for (const name of Object.keys(FIELDS)) {
    const input = form.elements.namedItem(name);
    if (!input.closest("label").hidden && String(data.get(name)).trim()) parameters[name] = String(data.get(name));
  }
  if (!parameters.names) { draw("report-result", h("p", { class: "problem" }, "Choose at least one report.")); return; }
  reports.answer = undefined;
  const hash = reportsHash(parameters);
  if (hash === location.hash) askReports(parameters); else go(hash);
}

async function askReports(parameters) {
  reports.asking?.abort();
  const asking = reports.asking = new AbortController();
  reports.answer = undefined;
  el("report-result").setAttribute("aria-busy", "true");
  draw("report-result", faint("Reading the archive…"));
  try {
    const answer = await get("/api/report", { ...parameters, step: parameters.step?.split("\n").map((step) => step.trim()).filter(Boolean) }, asking.signal);
    reports.answer = answer;
    announce(`${plural(answer.reports?.length ?? 0, "report")} shown.`);
    el("report-result").replaceChildren(h("p", { class: "terminal" }, "The same in a terminal: ", code(v(commandLine(parameters), 1000))), ...(answer.reports ?? []).map(reportElement));
  } catch (error) {
    if (isAbort(error)) return;
    if (error.status === 401) report(error);
    el("report-result").replaceChildren(h("p", { class: "problem" }, refusalNodes(error)));
  }
  el("report-result").removeAttribute("aria-busy");
}

const quoted = (text) => /^[\w.,:/=-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;

function commandLine(parameters) {
  const options = Object.entries(parameters).filter(([name]) => name !== "names").flatMap(([name, value]) =>
    (name === "step" ? value.split("\n") : [value]).filter((one) => one.trim()).map((one) => `--${name} ${quoted(one.trim())}`));
  return ["waybill report", parameters.names, "--data DIRECTORY", ...options].join(" ");
}

function reportCell(value, unit) {
  if (value === null || value === undefined || value === "") return "";
  if (typeof value !== "number") return v(value, 200);
  switch (unit) {
    case "share": return `${(value * 100).toFixed(1)} %`;
    case "seconds": return duration(value * 1000);
    case "milliseconds": return duration(value);
    default: return Number.isInteger(value) ? count(value) : value.toFixed(1);
  }
}

function reportElement(one) {
  const columnsOf = one.columns ?? [], rows = one.rows ?? [], isNumber = (unit) => unit !== "text" && unit !== "day";
  const id = `report-${String(one.name).replace(/\W/g, "-")}`, picture = one.svg ? drawing(one.svg) : undefined;
  return h("section", { class: "report", "aria-labelledby": id },
    h("h2", { id }, v(one.title ?? one.name, 100)),
    one.definition && h("p", { class: "definition" }, v(one.definition, 2000)),
    one.notes?.length ? h("ul", { class: "report-notes" }, one.notes.map((note) => h("li", {}, v(note, 1000)))) : undefined,
    picture && scroller(`Chart of ${plain(one.title ?? one.name)}`, "figure", picture),
    rows.length ? scroller(`Table of ${plain(one.title ?? one.name)}`, "table-box", table(v(one.title ?? one.name, 100), columnsOf.map((column) => isNumber(column.unit) ? [v(column.name, 60)] : v(column.name, 60)),
      rows.map((row) => h("tr", {}, row.map((value, i) => h("td", { class: isNumber(columnsOf[i]?.unit) ? "number" : undefined }, reportCell(value, columnsOf[i]?.unit))))), { class: "wide-table" }))
      : faint("Nothing was counted in this range."));
}

const SVG_ELEMENTS = new Set(["svg", "g", "path", "rect", "line", "polyline", "circle", "text", "tspan", "title", "desc"]);
const SVG_ATTRIBUTES = new Set("class viewBox width height x y x1 y1 x2 y2 cx cy r d points transform role aria-label".split(" "));

/** A report's drawing, made again of known elements and attributes; undefined when it is not a drawing. */
function drawing(markup) {
  const named = plain(markup).replace(/^<svg(?![^>]*\sxmlns=)/, `<svg xmlns="${SVG}"`);
  const parsed = new DOMParser().parseFromString(named, "image/svg+xml");
  const root = parsed.documentElement;
  if (root.namespaceURI !== SVG || root.localName !== "svg" || parsed.querySelector("parsererror")) return undefined;
  return known(root);
}

function known(node) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(visible(node.data));
  if (node.nodeType !== Node.ELEMENT_NODE || node.namespaceURI !== SVG || !SVG_ELEMENTS.has(node.localName)) return undefined;
  const copy = document.createElementNS(SVG, node.localName);
  for (const { name, value } of node.attributes) if (SVG_ATTRIBUTES.has(name)) copy.setAttribute(name, value);
  for (const child of node.childNodes) { const made = known(child); if (made) copy.append(made); }
  return copy;
}

// MARK: Dialogs

const KEYS = [["space", "pause, go on"], ["/", "filter"], ["j  k", "next, previous event"], ["enter", "open the event"], ["u", "timeline of its person"], ["f", "only events of this name"],
  ["c", "copy its JSON"], ["esc", "back"], ["?", "this list"]];

const dialogHead = (id, text) => h("div", { class: "dialog-head" }, h("h2", { id }, text), button("close", "Close"));

function showKeys() {
  draw("keys-dialog", dialogHead("keys-title", "Keys"),
    h("table", { class: "keys" }, h("caption", { class: "hidden-text" }, "Keys"), h("tbody", {}, KEYS.map(([key, text]) => h("tr", {}, h("th", { scope: "row" }, key.split("  ").map((one) => [h("kbd", {}, one), " "])), h("td", {}, text))))),
    h("label", { class: "check" }, h("input", { type: "checkbox", id: "keys-on", checked: areKeysOn() }), "Use keys without Ctrl or Alt"),
    h("h3", {}, "Filter"),
    p(code("name:tapped user:u-7 screen:Cart kind:action env:prod app:shop version:1.4 data.method:kakao refused:ga4 reason:no_insert_id -kind:screen \"free words\"")),
    faint("All words must match; - excludes. Upper and lower case are the same."));
  el("keys-dialog").showModal();
}

const areKeysOn = () => stored.read("keys", true) !== false;

function showColumns() {
  const all = [...Object.keys(COLUMNS), ...ownColumns()];
  draw("columns-dialog", dialogHead("columns-title", "Columns"),
    h("form", { id: "columns-form", method: "dialog" },
      h("div", { class: "checks" }, all.map((name) => h("label", {}, h("input", { type: "checkbox", name: "column", value: name, checked: columns.includes(name), disabled: name === "event" }), COLUMNS[name]?.title ?? v(name, 60)))),
      h("label", { class: "own" }, h("span", {}, "Add a member of the event"), h("input", { id: "own-column", type: "text", placeholder: "data.method", maxlength: "120", autocomplete: "off", spellcheck: "false" })),
      h("p", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Apply"), button("reset-columns", "Reset"))));
  el("columns-dialog").showModal();
}

function applyColumns(chosen) {
  const order = [...STANDARD.slice(0, -1), "tracked", "env", "app", "version"];
  columns = [...new Set([...order.filter((name) => name === "event" || chosen.includes(name)), ...chosen.filter((name) => !COLUMNS[name]), ...(chosen.includes("providers") ? ["providers"] : [])])];
  stored.write("columns", columns);
  el("columns-dialog").close();
  drawHead();
  reload();
}

function askForToken() {
  if (el("access-dialog").open) return;
  draw("access-dialog", h("h2", { id: "access-title" }, "This page needs its token"),
    p("Open the address that ", code("waybill live"), " printed when it started; it ends with ", code("#t="), " and the token. A new start has a new token, unless it was started with ", code("--token-file"), "."),
    h("form", { id: "access-form", method: "dialog" }, h("label", { class: "own" }, h("span", {}, "Or paste the token"), h("input", { id: "token", type: "password", autocomplete: "off", required: true })),
      h("p", { id: "access-problem", class: "problem", hidden: true }), h("p", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Open"))));
  el("access-dialog").showModal();
}

async function openSession(token) {
  await request("/api/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) });
}

async function useToken(text) {
  try {
    await openSession(text.replace(/^.*#t=/, "").trim());
    el("access-dialog").close();
    notice(undefined);
    follow();
    openRoute();
  } catch (error) {
    el("access-problem").hidden = false;
    draw("access-problem", error instanceof Refusal && error.status === 401 ? "This is not the token of this start." : refusalNodes(error));
  }
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied`);
  } catch { toast("This browser does not let the page copy"); }
}

let toastTimer;
function toast(text) {
  announce(text);
  const box = document.querySelector(".toast") ?? document.body.appendChild(h("p", { class: "toast", "aria-hidden": "true" }));
  box.textContent = text;
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { box.hidden = true; }, 2000);
}

// MARK: Addresses

function go(hash) {
  if (location.hash === hash || (hash === "#/" && location.hash === "")) openRoute(); else location.hash = hash;
}

const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };

function parseRoute(hash) {
  const path = hash.replace(/^#\/?/, "");
  const [head, ...rest] = path.split("/");
  const [name, search = ""] = head.split("?");
  if (head === "q") return { view: "live", filter: decoded(rest.join("/")) };
  if (head === "event" && rest.length) return { view: "event", key: decoded(rest.join("/")) };
  if (head === "person" && rest.length) return { view: "person", key: decoded(rest.join("/")) };
  if (name === "names") return { view: "names" };
  if (name === "reports") return { view: "reports", search: path.slice(path.indexOf("?") + 1 || path.length) || search };
  return { view: "live", filter: "" };
}

function openRoute() {
  const route = state.route = parseRoute(location.hash);
  const view = route.view === "event" || route.view === "person" ? "live" : route.view;
  for (const name of ["live", "names", "reports"]) el(`view-${name}`).hidden = name !== view;
  for (const entry of document.querySelectorAll("nav a")) {
    if (entry.dataset.view === view) entry.setAttribute("aria-current", "page"); else entry.removeAttribute("aria-current");
  }
  document.body.dataset.view = view;
  if (route.view === "event") showEvent(route.key);
  else if (route.view === "person") showPerson(route.key);
  else closeDetail();
  if (view === "live") setFilter(route.filter ?? state.filter);
  if (view === "names") showNames();
  if (view === "reports") showReports(route.search);
  drawShown();
}

/** Back from an event or a person to the list. */
function back() {
  const at = state.selected;
  go(queryHash(state.filter));
  elementOf(at)?.focus({ preventScroll: true });
}

// MARK: Hands

function select(step) {
  const list = [...el("rows").querySelectorAll("tr:not(.gap)")];
  if (!list.length) return;
  const now = list.indexOf(elementOf(state.selected));
  const next = list[Math.min(list.length - 1, Math.max(0, now + step))];
  state.selected = next.dataset.at;
  anchorFocus();
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  if (state.route.view === "event") go(eventHash(itemOf(state.selected)));
}

/** The event that keys act on: the selected row, or the one that is open. */
function current() {
  return itemOf(state.selected) ?? (state.route.view === "event" ? shown : undefined);
}

async function currentLine(row) {
  if (state.route.view === "event" && rowKey(row) === rowKey(shown)) return shown.raw ?? JSON.stringify(shown.event);
  const found = await get("/api/event", row.id ? { id: row.id } : { at: row.at });
  return found.raw ?? JSON.stringify(found.event);
}

const ACTIONS = {
  skip: () => el("feed").focus(),
  keys: showKeys,
  columns: showColumns,
  close: (target) => target.closest("dialog").close(),
  pause: () => pause(!state.isPaused),
  clear: () => { Object.assign(feed, { items: [], held: [], heldGap: 0, seen: 0, matched: 0, dropped: 0, isCleared: true }); drawRows(); },
  reload,
  top: () => { state.selected = undefined; if (el("rows").contains(document.activeElement)) document.activeElement.blur(); el("feed").scrollTop = 0; state.isScrolled = false; release(); },
  older: loadOlder,
  back,
  names: showNames,
  "fill-gap": (target) => fillGap(target.dataset.at),
  "no-filter": () => { el("filter").value = ""; go("#/"); },
  "refused-only": () => toggleWord(ANY_REFUSED),
  env: (target) => toggleWord(term("env", target.dataset.env), (word) => word.startsWith("env:")),
  copy: () => copy(shown.raw ?? JSON.stringify(shown.event), "JSON"),
  "copy-link": () => copy(location.href, "Link"),
  "older-person": async () => { await askPerson(people.rows.findLast(isRow)?.at); draw("detail", personNodes()); },
  "reset-columns": () => applyColumns(STANDARD),
};

document.addEventListener("click", (event) => {
  const target = event.target.closest?.("[data-act]");
  if (target) {
    if (target.tagName === "A") event.preventDefault();
    Promise.resolve(ACTIONS[target.dataset.act]?.(target)).catch(report);
    return;
  }
  const row = event.target.closest?.("#rows tr[data-key]");
  if (row && !event.target.closest("a, button")) {
    state.selected = row.dataset.at;
    anchorFocus();
    if (!String(getSelection())) go(`#/event/${encodeURIComponent(row.dataset.key)}`);
  }
});

// A row must not move between press and release.
document.addEventListener("pointerdown", (event) => { state.isPressed = Boolean(event.target.closest?.("#rows")); });
for (const name of ["pointerup", "pointercancel"]) {
  document.addEventListener(name, () => { if (state.isPressed) setTimeout(() => { state.isPressed = false; settle(); }, 0); });
}

/** Shows what was held once no one reads further down. */
function settle() {
  if (!isHeld() && feed.held.length) release();
}

el("feed").addEventListener("scroll", () => { state.isScrolled = el("feed").scrollTop > 8; settle(); }, { passive: true });
el("rows").addEventListener("focusout", () => setTimeout(settle, 0));

let typing;
el("filter").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => { history.replaceState(null, "", queryHash(el("filter").value.trim())); openRoute(); }, 300);
});
el("bar").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typing);
  go(queryHash(el("filter").value.trim()));
});

document.addEventListener("submit", (event) => {
  if (event.target.id === "report-form") { event.preventDefault(); submitReports(event.target); }
  if (event.target.id === "access-form") { event.preventDefault(); useToken(el("token").value); }
  if (event.target.id === "columns-form") {
    event.preventDefault();
    const own = el("own-column").value.trim(), chosen = new FormData(event.target).getAll("column");
    applyColumns(own && !/[\s,]/.test(own) ? [...chosen, own] : chosen);
  }
});
document.addEventListener("input", (event) => { if (event.target.id === "name-search") { catalogue.search = event.target.value; drawNames(); } });
document.addEventListener("change", (event) => {
  if (event.target.id === "keys-on") stored.write("keys", event.target.checked);
  if (event.target.name === "report") revealFields(event.target.form);
});

const PRESSED = {
  " ": () => pause(!state.isPaused),
  "/": () => { if (state.route.view !== "live") go(queryHash(state.filter)); el("filter").focus(); el("filter").select(); },
  j: () => select(1), k: () => select(-1), ArrowDown: () => select(1), ArrowUp: () => select(-1),
  Enter: () => { const row = itemOf(state.selected); if (row) go(eventHash(row)); },
  u: () => { const row = current(), key = row && personKey(row); if (key) go(personHash(key)); },
  f: () => { const row = current(); if (row) go(queryHash(nameFilter(row))); },
  c: async () => { const row = current(); if (row) await copy(await currentLine(row), "JSON"); },
  "?": showKeys,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  const target = event.target, isTyping = target.matches?.("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape") {
    if (target.id === "filter") target.blur();
    else if (state.route.view === "event" || state.route.view === "person") back();
    else if (state.selected !== undefined || el("feed").scrollTop > 0) ACTIONS.top();
    return;
  }
  const isOnRow = target.matches?.("#rows tr");
  const isControl = target.closest?.("button, a, summary, input, pre, [role=region]");
  if (isTyping || !PRESSED[event.key] || document.body.dataset.view !== "live" && !["?", "/"].includes(event.key)) return;
  if (event.key.startsWith("Arrow") && !isOnRow) return;
  if ([" ", "Enter"].includes(event.key) && isControl) return;
  if (event.key !== "Enter" && !event.key.startsWith("Arrow") && !areKeysOn()) return;
  event.preventDefault();
  Promise.resolve(PRESSED[event.key]()).catch(report);
});

el("rows").addEventListener("focusin", (event) => {
  const row = event.target.closest("tr[data-key]");
  if (row && event.target === row) state.selected = row.dataset.at;
});

// MARK: Start

async function start() {
  el("state-host").textContent = location.host;
  drawHead();
  window.addEventListener("hashchange", openRoute);
  const given = /^#t=([^/&]+)(.*)$/.exec(location.hash);
  if (given) {
    // The token leaves the address before anything else is asked.
    history.replaceState(null, "", given[2].startsWith("/") ? `#${given[2]}` : "#/");
    try { await openSession(decoded(given[1])); } catch (error) { report(error); if (error.status !== 0) { setConnection("waiting"); return; } }
  }
  openRoute();
  if (state.connection === "connecting" && run === 0) follow();
}

start();
