"use strict";
// The live page of a Headtime server. Once a second the server sends an event: its status, and
// what happened since the event before. Everything on the page is drawn from these events.

const SECONDS = 120; // the width of the charts over time
const TOP_BIN = 48; // bins of response times: an eighth of a decade each, from 0.1 ms up
const COLOURS = 8;
const PATTERNS = 7;

const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

let events = []; // the events of the last two minutes, the latest last
let shown = []; // those on the page: the same, or the ones before the pause
let arrived = 0; // the time of the last event, by the browser's clock
let moved = 0; // the time of the last frame
let paused = false;
let cursor = null; // the second that the reader looks at, as its uptime; null for the latest
const indexes = new Map(); // the number of each export, which decides color and pattern

// Elements

/** An element with properties and children; text can never become markup. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The child of `parent` with this key, made by `fresh` if it is new. */
function keyed(parent, key, fresh) {
  let child = [...parent.children].find((child) => child.dataset.key === key);
  if (!child) {
    child = fresh();
    child.dataset.key = key;
    parent.append(child);
  }
  child.dataset.seen = "yes";
  return child;
}

/** Removes the children that `keyed` was not asked for since the last sweep. */
function sweep(parent) {
  for (const child of [...parent.children]) {
    if (child.dataset.seen !== "yes") child.remove();
    child.dataset.seen = "no";
  }
}

/** Fills a table in place, so that a reader's position in it survives. A cell is a text, or an
 * object with text and further properties. The first cell of a row is its header. */
function fillTable(table, caption, head, rows) {
  if (!table.tHead) {
    if (caption) table.createCaption().textContent = caption;
    table.createTHead();
    table.append(make("tbody"));
  }
  const fillRow = (row, cells, header) => {
    while (row.cells.length > cells.length) row.lastChild.remove();
    cells.forEach((cell, at) => {
      const { text, figure, bar, kind } = typeof cell === "string" ? { text: cell } : cell;
      let element = row.cells[at];
      if (!element) {
        const scope = header ? "col" : "row";
        element = header || at === 0 ? make("th", { scope }) : make("td");
        row.append(element);
      }
      if (kind) element.className = kind;
      if (figure) element.dataset.figure = figure;
      const shown = bar === undefined ? text : `${text} ${Math.round(bar * 100)} %`;
      if (element.textContent === shown) return;
      element.textContent = shown;
      if (bar !== undefined) {
        const line = make("span", { class: "bar" });
        line.style.width = `${Math.round(bar * 100)}%`;
        element.append(line);
      }
    });
  };
  const body = table.tBodies[0];
  fillRow(table.tHead.rows[0] ?? table.tHead.insertRow(), head, true);
  while (body.rows.length > rows.length) body.lastChild.remove();
  rows.forEach((cells, at) => fillRow(body.rows[at] ?? body.insertRow(), cells, false));
}

// Texts

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const ms = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} s`
  : `${value.toFixed(value >= 10 ? 0 : value >= 1 ? 1 : 2)} ms`);
const binMs = (bin) => 0.1 * 10 ** (bin / 8);

function span(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = parts.find(([size]) => seconds >= size) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit}`;
}

/** The response time within which this share of the requests was, to the width of a bin. */
function quantile(heat, part) {
  const all = heat.reduce((sum, [, count]) => sum + count, 0);
  let seen = 0;
  for (const [bin, count] of heat) {
    seen += count;
    if (seen >= part * all) return ms(binMs(bin + 1));
  }
  return "–";
}

const used = (event, name) => {
  const found = event.exports.find((other) => other.name === name);
  return found && event.interval_seconds > 0 ? found.disk_seconds / event.interval_seconds : 0;
};
const scanned = (event) =>
  event.interval_seconds > 0 ? event.scan_seconds / event.interval_seconds : 0;

// Drawing

const palette = new Map(); // the colors of the present scheme

function css(name) {
  if (!palette.has(name)) {
    palette.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  }
  return palette.get(name);
}

/** A canvas as sharp as the screen, empty, with its size in CSS pixels. */
function blank(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [canvas.clientWidth, canvas.clientHeight];
  [canvas.width, canvas.height] = [Math.round(w * ratio), Math.round(h * ratio)];
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.font = "12px system-ui, 'Liberation Sans', sans-serif";
  return { c, w, h };
}

const colour = (index) => css(index < 0 ? "--scan" : `--v${index % COLOURS}`);

/** The fill of an export: a color with a pattern, so that neither is needed alone. */
function fill(c, index) {
  if (!palette.has(index)) palette.set(index, tileOf(index));
  return c.createPattern(palette.get(index), "repeat");
}

function tileOf(index) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const t = tile.getContext("2d");
  t.fillStyle = colour(index);
  t.fillRect(0, 0, 8, 8);
  t.strokeStyle = t.fillStyle = css("--card");
  t.lineWidth = 1.6;
  const line = (...points) => {
    t.beginPath();
    for (let at = 0; at < points.length; at += 4) {
      t.moveTo(points[at], points[at + 1]);
      t.lineTo(points[at + 2], points[at + 3]);
    }
    t.stroke();
  };
  const kind = index < 0 ? 3 : index % PATTERNS;
  if (kind === 1) line(-2, 2, 2, -2, -2, 10, 10, -2, 6, 10, 10, 6);
  if (kind === 2) line(-2, 6, 2, 10, -2, -2, 10, 10, 6, -2, 10, 2);
  if (kind === 3) for (const at of [1, 5]) t.fillRect(at, at, 2.4, 2.4);
  if (kind === 4 || kind === 6) line(0, 4, 8, 4);
  if (kind === 5 || kind === 6) line(4, 0, 4, 8);
  return tile;
}

/** A label on the background of the page, so that it is readable on everything. */
function label(c, text, x, y, ink = css("--ink")) {
  const width = c.measureText(text).width;
  c.globalAlpha = 0.8;
  c.fillStyle = css("--paper");
  c.fillRect(x - 2, y - 11, width + 4, 14);
  c.globalAlpha = 1;
  c.fillStyle = ink;
  c.fillText(text, x, y);
}

/** A line over time at the height of `y(event)`, which may be null. */
function level({ c, w }, now, dash, ink, y) {
  c.strokeStyle = ink;
  c.lineWidth = 2;
  c.setLineDash(dash);
  c.beginPath();
  let open = false;
  columns(w, now, (event, x, width) => {
    const at = y(event);
    if (at !== null) {
      if (open) c.lineTo(x, at);
      else c.moveTo(x, at);
      c.lineTo(x + width, at);
    }
    open = at !== null;
  });
  c.stroke();
  c.setLineDash([]);
}

/** The frame of a chart over time: marks each 30 s and the second under the cursor. */
function frame({ c, w, h }, now) {
  c.strokeStyle = css("--line");
  c.strokeRect(0.5, 0.5, w - 1, h - 1);
  for (let ago = 30; ago < SECONDS; ago += 30) {
    const x = w * (1 - ago / SECONDS);
    c.fillStyle = css("--line");
    c.fillRect(x, 0, 1, h);
    label(c, `−${ago} s`, x + 3, h - 4, css("--soft"));
  }
  if (cursor === null) return;
  c.fillStyle = css("--ink");
  c.fillRect(w * (1 - (now - cursor) / SECONDS) - 1, 0, 2, h);
}

/** Calls `draw` for each event with the left edge and the width of its column. */
function columns(w, now, draw) {
  for (const event of shown) {
    const ago = now - event.status.uptime_seconds;
    const [from, to] = [ago + event.interval_seconds, ago].map((at) =>
      Math.round(w * (1 - at / SECONDS)));
    if (to > from) draw(event, from, to - from);
  }
}

function drawStack(latest) {
  const canvas = $("stack");
  const area = blank(canvas);
  const { c, w, h } = area;
  const now = latest.status.uptime_seconds;
  const fills = new Map(latest.exports.map(({ name }) => [name, fill(c, indexes.get(name))]));
  const scans = fill(c, -1);
  columns(w, now, (event, x, width) => {
    let top = h;
    const stack = (share, style) => {
      const height = Math.min(share * h, top);
      c.fillStyle = style;
      c.fillRect(x, top - height, width, height);
      c.fillStyle = css("--ink");
      if (height > 1) c.fillRect(x, top - height, width, 1);
      top -= height;
    };
    for (const { name } of event.exports) stack(used(event, name), fills.get(name) ?? scans);
    stack(scanned(event), scans);
  });
  frame(area, now);
  label(c, "100 %", 4, 13, css("--soft"));
  label(c, "50 %", 4, h / 2 + 4, css("--soft"));
  const busy = latest.exports.map(({ name }) => `${name} ${percent(used(latest, name))}`);
  busy.push(`scans ${percent(scanned(latest))}`);
  canvas.setAttribute("aria-label", `Disk time over two minutes, now: ${busy.join(", ")}`);
}

/** The figure of an export in a grid: a caption with its swatch, a text, and a canvas. */
function figureOf(grid, name, text) {
  const figure = keyed($(grid), name, () => {
    const caption = make("figcaption", {}, swatch(), ` ${name}`, make("span"));
    const canvas = make("canvas", { role: "img", tabindex: 0, "aria-describedby": "readout" });
    return make("figure", {}, caption, withCursor(canvas));
  });
  paintSwatch(figure.querySelector(".swatch"), indexes.get(name));
  setText(figure.querySelector("span"), text);
  const canvas = figure.lastChild;
  canvas.setAttribute("aria-label", `${name}: ${text}`);
  return { canvas, ...blank(canvas) };
}

function drawStrip(latest, share) {
  const [promised, limit] = [share.reserve_percent, share.limit_percent];
  const texts = [`used ${percent(used(latest, share.name))}`];
  if (promised) texts.push(`promised ${promised} %`);
  if (limit !== null) texts.push(`limit ${limit} %${share.held_back ? ", holds it back now" : ""}`);
  const area = figureOf("strips", share.name, texts.join(", "));
  const { c, w, h } = area;
  const now = latest.status.uptime_seconds;
  const style = fill(c, indexes.get(share.name));
  columns(w, now, (event, x, width) => {
    const height = Math.min(used(event, share.name), 1) * h;
    c.fillStyle = style;
    c.fillRect(x, h - height, width, height);
  });
  frame(area, now);
  const y = (percent) => (percent ? Math.max(h * (1 - percent / 100), 1) : null);
  const then = (event) => event.exports.find((other) => other.name === share.name);
  const of = (key) => (event) => y(then(event)?.[key]);
  level(area, now, [6, 4], css("--ink"), of("reserve_percent"));
  level(area, now, [], css("--alert"), of("limit_percent"));
  if (promised) label(c, `promised ${promised} %`, 6, Math.max(y(promised) - 4, 12));
  if (limit) label(c, `limit ${limit} %`, w - 84, Math.max(y(limit) - 4, 12), css("--alert"));
}

function drawHeat(latest, share) {
  const volume = latest.status.volumes.find((volume) => volume.name === share.name);
  const deadline = volume?.deadline_ms ?? null;
  const all = new Map();
  for (const event of shown.slice(-10)) {
    const found = event.exports.find((other) => other.name === share.name);
    for (const [bin, count] of found?.heat ?? []) all.set(bin, (all.get(bin) ?? 0) + count);
  }
  const recent = [...all].sort(([a], [b]) => a - b);
  const texts = recent.length === 0 ? ["no requests in the last 10 s"] : [
    `median ${quantile(recent, 0.5)}, 99 % within ${quantile(recent, 0.99)}`];
  if (deadline !== null) texts.push(`deadline ${ms(deadline)}`);
  const area = figureOf("heat", share.name, texts.join(", "));
  const { c, w, h } = area;
  const now = latest.status.uptime_seconds;
  const heats = (event) => event.exports.find((other) => other.name === share.name)?.heat ?? [];
  const seen = shown.flatMap((event) => heats(event).map(([bin]) => bin));
  const top = Math.max(...seen, 32, deadline === null ? 0 : 8 * Math.log10(deadline / 0.1)) + 2;
  const most = Math.log1p(Math.max(1, ...shown.flatMap((event) => heats(event).map((b) => b[1]))));
  const cell = h / top;
  const ink = css("--heat").split(" ").join(",");
  columns(w, now, (event, x, width) => {
    for (const [bin, count] of heats(event)) {
      c.fillStyle = `rgba(${ink},${0.2 + (0.8 * Math.log1p(count)) / most})`;
      c.fillRect(x, h - (bin + 1) * cell, width, Math.max(cell, 1.5));
    }
  });
  frame(area, now);
  for (const [at, text] of [[1, "1 ms"], [10, "10 ms"], [100, "100 ms"], [1000, "1 s"]]) {
    label(c, text, 4, h - 8 * Math.log10(at / 0.1) * cell + 4, css("--soft"));
  }
  if (deadline === null) return;
  const y = h - Math.min(8 * Math.log10(deadline / 0.1), TOP_BIN) * cell;
  level(area, now, [6, 4], css("--alert"), () => y);
  label(c, `deadline ${ms(deadline)}`, w - 116, Math.max(y - 4, 12), css("--alert"));
}

// The platter

const RING = [0.98, 0.42]; // the outermost and the innermost cylinder, in radii of the drawing

/** The radius of a position; addresses are spread by area where no tracks are known. */
function radius(platter, position) {
  const [outer, inner] = RING;
  if (platter.tracks) return outer - (outer - inner) * position;
  return Math.sqrt(outer ** 2 - (outer ** 2 - inner ** 2) * position);
}

/** Draws the platter with the work of the last second up to `until` ms before its end. */
function drawPlatter(latest, until = 0) {
  const { platter, status } = latest;
  const { c, w } = blank($("platter"));
  const [x, half] = [w / 2, w / 2];
  const r = (position) => half * radius(platter, position);
  const ring = (from, to, style, start = 0, part = 1) => {
    c.beginPath();
    c.arc(x, x, r(from), (start - 0.25) * 2 * Math.PI, (start + part - 0.25) * 2 * Math.PI);
    c.arc(x, x, r(to), (start + part - 0.25) * 2 * Math.PI, (start - 0.25) * 2 * Math.PI, true);
    c.fillStyle = style;
    c.fill();
  };
  const circle = (radius, ink, width = 1) => {
    c.lineWidth = width;
    c.strokeStyle = ink;
    c.beginPath();
    c.arc(x, x, radius, 0, 2 * Math.PI);
    c.stroke();
  };
  ring(0, 1, css("--card"));
  // Volumes fill a quarter; the rest of the circle is for zones and work.
  for (const [name, from, to] of platter.volumes) {
    c.globalAlpha = 0.9;
    ring(from, to, fill(c, indexes.get(name)), 0.625, 0.25);
    c.globalAlpha = 0.12;
    ring(from, to, colour(indexes.get(name)));
    c.globalAlpha = 1;
  }
  for (const [from] of platter.zones) circle(r(from), css("--line"));
  for (const { target, bytes, bytes_done } of status.scans) {
    const extents = platter.volumes.filter(([name]) => name === target);
    c.globalAlpha = 0.5;
    for (const [, from, to] of extents.length > 0 ? extents : [["", 0, 1]]) {
      const middle = (from + to) / 2;
      ring(middle - (to - from) / 12, middle + (to - from) / 12, css("--scan"), 0,
        bytes > 0 ? bytes_done / bytes : 1);
    }
    c.globalAlpha = 1;
  }
  circle(r(0), css("--soft"), 2);
  circle(r(1), css("--soft"), 2);
  let [trail, last] = [null, null];
  for (const head of [...platter.heads].reverse()) {
    if (head.ago_ms < until) break;
    const angle = ((head.angle ?? 1 - head.ago_ms / 1000) - 0.25) * 2 * Math.PI;
    const at = [x + r(head.position) * Math.cos(angle), x + r(head.position) * Math.sin(angle)];
    last = head;
    mark(c, at, head.export === undefined ? "scan" : head.write ? "write" : "read",
      colour(head.export === undefined ? -1 : indexes.get(latest.exports[head.export].name)));
    trail = at;
  }
  // The arm, from the lower left to where the head was last.
  const rest = [x - half * 0.95, w - half * 0.05];
  const to = trail ?? [x - r(1) * 0.5, x + r(1) * 0.85];
  c.strokeStyle = css("--ink");
  c.lineWidth = 3;
  c.globalAlpha = 0.55;
  c.beginPath();
  c.moveTo(...rest);
  c.lineTo(...to);
  c.stroke();
  c.globalAlpha = 1;
  return last;
}

/** Draws the mark of a work: a circle for a read, a square for a write, a triangle for a scan. */
function mark(c, [x, y], kind, ink) {
  c.beginPath();
  if (kind === "read") c.arc(x, y, 3.4, 0, 2 * Math.PI);
  if (kind === "write") c.rect(x - 3, y - 3, 6, 6);
  if (kind === "scan") {
    c.moveTo(x, y - 4);
    c.lineTo(x + 4, y + 3);
    c.lineTo(x - 4, y + 3);
    c.closePath();
  }
  for (const [style, width] of [[css("--paper"), 4.5], [ink, 1.8]]) {
    c.strokeStyle = style;
    c.lineWidth = width;
    c.stroke();
  }
  c.fillStyle = kind === "write" ? ink : css("--paper");
  c.fill();
}

function drawPlatterSide(latest) {
  const { platter, status } = latest;
  const count = platter.heads.length + platter.left_out;
  const where = platter.tracks
    ? `${platter.zones.length} zones, the outermost with ${platter.zones[0][2]} sectors per ` +
      `track, the innermost with ${platter.zones.at(-1)[2]}. Marks are where the drive model ` +
      "expects the first sector."
    : "The drive model knows no tracks: marks lie by address, and by time around the circle.";
  const kept = platter.left_out > 0 ? `, of which the last ${platter.heads.length} are drawn` : "";
  const text = `${count} requests and reads for scans${kept}. ${where}`;
  setText($("platter-note"), text);
  $("platter").setAttribute("aria-label", `Platter: ${text}`);
  for (const [kind, title] of [["read", "read"], ["write", "write"], ["scan", "read for a scan"]]) {
    const item = keyed($("platter-legend"), kind, () => make("li", {}, swatch(), title));
    const { c, w, h } = blank(item.firstChild);
    mark(c, [w / 2, h / 2], kind, css("--ink"));
  }
  for (const [name] of platter.volumes) {
    const item = keyed($("platter-legend"), `volume ${name}`, () => make("li", {}, swatch(), name));
    paintSwatch(item.firstChild, indexes.get(name));
  }
  sweep($("platter-legend"));
  for (const [key, title, done, text] of background(status)) {
    const item = keyed($("scans"), key, () => {
      const bar = make("progress", { max: 1, "aria-label": key });
      return make("div", {}, make("h3"), make("p", { class: "fine" }), bar);
    });
    setText(item.children[0], `${title}: ${percent(done)}`);
    setText(item.children[1], text);
    item.children[2].value = done;
  }
  sweep($("scans"));
}

/** Scans, the last relocation and the characterization: key, title, share done, state. */
function background({ scans, relocation, characterization }) {
  const gib = (bytes) => (bytes / 2 ** 30).toFixed(1);
  const share = (done, all) => all > 0 ? done / all : 1;
  const work = scans.map((scan) => {
    const range = scan.range ? `, ${gib(scan.range.start)} to ${gib(scan.range.end)} GiB` : "";
    const rate = `${(scan.bytes_per_second / 2 ** 20).toFixed(1)} MiB/s`;
    const left = scan.seconds_left === null ? "" : `, ${span(scan.seconds_left)} left`;
    const next = scan.next_start ? `next start ${scan.next_start}` : rate + left;
    return [`${scan.target} ${scan.task}`, `${scan.task} of ${scan.target}${range}`,
      share(scan.bytes_done, scan.bytes), `${scan.state}, ${scan.reason || next}`];
  });
  if (relocation) {
    const { volume, state, pass, reason } = relocation;
    const done = state === "complete" ? 1 : share(relocation.pass_bytes_done, relocation.pass_bytes);
    const text = `${gib(relocation.bytes)} GiB, pass ${pass}, ${span(relocation.seconds)}`;
    work.push([`${volume} relocation`, `relocation of ${volume}`, done,
      `${state}, ${reason || text}`]);
  }
  if (characterization) {
    const { state, stage, progress, reads, waits_for, reason } = characterization;
    work.push(["characterization", "characterization", state === "complete" ? 1 : progress,
      `${state}, ${reason || waits_for || `${stage}, ${reads} reads`}`]);
  }
  return work;
}

/** Repeats the last second while it lasts, unless the reader prefers less motion. */
function animate(now) {
  const latest = shown.at(-1);
  const moves = latest && !paused && !calm.matches && latest.platter.heads.length > 0;
  const until = 1000 - (now - arrived);
  if (moves && now - moved > 40 && until > -100) {
    moved = now;
    drawPlatter(latest, Math.max(until, 0));
  }
  requestAnimationFrame(animate);
}

// Waits and misses

const NOBODY = "nobody (held back)";

function drawWaits() {
  const waits = new Map();
  const served = new Set();
  for (const event of shown.slice(-10)) {
    for (const { export: name, requests, waited_ms, served_ms } of event.waits) {
      const sum = waits.get(name) ?? { requests: 0, waited: 0, served: new Map() };
      waits.set(name, sum);
      sum.requests += requests;
      sum.waited += waited_ms;
      for (const [other, time] of Object.entries(served_ms)) {
        served.add(other);
        sum.served.set(other, (sum.served.get(other) ?? 0) + time);
      }
    }
  }
  const others = [...served].sort();
  const rows = [...waits].map(([name, { requests, waited, served }]) => {
    const nobody = waited - [...served.values()].reduce((sum, time) => sum + time, 0);
    const cell = (time) => (waited > 0 && time / waited >= 0.005
      ? { text: `${ms(time / requests)},`, bar: time / waited } : "–");
    const parts = others.map((other) => cell(served.get(other) ?? 0));
    return [name || "the server", `${requests}`, ms(waited / requests), ...parts, cell(nobody)];
  });
  const titles = others.map((other) => `for ${other || "the server"}`);
  const head = ["client of", "requests", "waited", ...titles, `for ${NOBODY}`];
  fillTable($("waits"), "", head, rows);
}

function drawMisses({ misses, status }) {
  const counts = status.volumes.filter((volume) => volume.deadline_requests > 0).map((volume) =>
    `${volume.name} ${volume.deadline_misses} of ${volume.deadline_requests}`);
  const [text, more] = misses.length === 0 ? ["none", ""] : ["", " The latest come first:"];
  const since = counts.length > 0 ? ` Missed since the server started: ${counts.join(", ")}.` : "";
  setText($("misses-note"), `Recent misses and failures: ${text || misses.length}.${since}${more}`);
  const parts = (of, unit) => Object.entries(of).sort(([, a], [, b]) => b - a)
    .map(([name, time]) => `${name} ${ms(time)}`).join(unit);
  const rows = misses.map((miss) => {
    const others = parts(miss.served_ms, ", ");
    const cause = miss.failed ? "failed" : miss.cause;
    const request = `${miss.export} ${miss.op} of ${miss.length_bytes / 1024} KiB`;
    const deadline = miss.deadline_ms === null ? "" : ` of ${ms(miss.deadline_ms)}`;
    const texts = [cause, `${ms(miss.response_ms)}${deadline}`, request];
    const all = [...texts, parts(miss.parts_ms, ", "), others || "–"];
    return [`${span(miss.ago_seconds)} ago`, ...all.map((text) => ({ text, kind: "text" }))];
  });
  const titles = ["main cause", "took, of its deadline", "request", "all parts", "it waited for"];
  const head = ["when", ...titles.map((text) => ({ text, kind: "text" }))];
  $("misses").hidden = misses.length === 0;
  fillTable($("misses"), "", head, rows);
}

// Legends

const swatch = () => make("canvas", { class: "swatch", "aria-hidden": "true" });

function paintSwatch(canvas, index) {
  const { c, w, h } = blank(canvas);
  c.fillStyle = fill(c, index);
  c.fillRect(0, 0, w, h);
  c.strokeStyle = css("--ink");
  c.strokeRect(0.5, 0.5, w - 1, h - 1);
}

function drawLegend(latest) {
  for (const name of [...latest.exports.map((share) => share.name), "scans"]) {
    const isScan = !indexes.has(name);
    const item = keyed($("legend"), name, () => make("li", {}, swatch(), name));
    paintSwatch(item.firstChild, isScan ? -1 : indexes.get(name));
  }
  sweep($("legend"));
}

// The second under the cursor

/** Lets arrow keys and a pointer choose a second on a chart over time. */
function withCursor(canvas) {
  canvas.addEventListener("keydown", (key) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key.key];
    if (step === undefined && key.key !== "Escape") return;
    key.preventDefault();
    const at = shown.findIndex((event) => event.status.uptime_seconds === cursor);
    const to = (at < 0 ? shown.length : at) + (step ?? shown.length);
    choose(shown[Math.max(to, 0)]);
  });
  canvas.addEventListener("pointermove", (pointer) => {
    const now = shown.at(-1)?.status.uptime_seconds ?? 0;
    const at = now - SECONDS * (1 - pointer.offsetX / canvas.clientWidth);
    choose(shown.find((event) => event.status.uptime_seconds >= at));
  });
  canvas.addEventListener("pointerleave", () => choose(undefined));
  return canvas;
}

function choose(event) {
  cursor = event?.status.uptime_seconds ?? null;
  draw();
  if (!event) return;
  const ago = Math.round(shown.at(-1).status.uptime_seconds - cursor);
  const parts = event.exports.map(({ name, heat, requests }) =>
    `${name} ${percent(used(event, name))} of the time, ${requests} requests` +
    (heat.length > 0 ? `, median ${quantile(heat, 0.5)}, 99 % ${quantile(heat, 0.99)}` : ""));
  setText($("readout"), `${ago} s ago: ${parts.join("; ")}; scans ${percent(scanned(event))}.`);
}

// Figures

/** Every leaf of the status: its path and its text. */
function leaves(value, path = []) {
  if (value === null || typeof value !== "object") return [[path, show(value)]];
  return Object.entries(value).flatMap(([key, inner]) => leaves(inner, [...path, key]));
}

function show(value) {
  if (value === null || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return value;
  return Number.isInteger(value) ? String(value) : String(Number(value.toFixed(3)));
}

function drawFigures(status) {
  const cell = ([path, text]) =>
    ({ text, figure: path.join("."), kind: /^[-–\d.]+$/.test(text) ? "" : "text" });
  const words = (path) => path.join(" ").replaceAll("_", " ");
  const table = (key, head, rows) => {
    const scroll = { class: "scroll", role: "region", tabindex: 0, "aria-label": key };
    const holder = keyed($("tables"), key, () => make("div", scroll, make("table")));
    holder.hidden = rows.length === 0;
    fillTable(holder.firstChild, key, head, rows);
  };
  // A list: a column for each of its entries, a row for each figure.
  const list = (key, name) => {
    const rows = new Map();
    status[key].forEach((entry, at) => {
      for (const leaf of leaves(entry, [key, at])) {
        const title = words(leaf[0].slice(2));
        if (!rows.has(title)) rows.set(title, status[key].map(() => "–"));
        rows.get(title)[at] = cell(leaf);
      }
    });
    table(key, ["", ...status[key].map(name)], [...rows].map(([title, row]) => [title, ...row]));
  };
  const { volumes, scans, drive, model, tunables, ...server } = status;
  const plain = (key, part, path) => table(key, ["", { text: "value", kind: "text" }],
    leaves(part, path).map((leaf) => [words(leaf[0].slice(path.length)), cell(leaf)]));
  list("volumes", (volume) => volume.name);
  list("scans", (scan) => `${scan.target} ${scan.task}`);
  plain("drive", drive, ["drive"]);
  plain("model", model, ["model"]);
  plain("server", server, []);
  // Tunables have long texts: a row for each.
  const titles = Object.keys(tunables[0] ?? {}).map((text, at) => at ? { text, kind: "text" } : "");
  table("tunables", titles, tunables.map((of, at) => leaves(of, ["tunables", at]).map(cell)));
  sweep($("tables"));
}

// The whole page

function draw() {
  const latest = shown.at(-1);
  if (!latest) return;
  drawStack(latest);
  for (const share of latest.exports) {
    drawStrip(latest, share);
    drawHeat(latest, share);
  }
  sweep($("strips"));
  sweep($("heat"));
  drawLegend(latest);
  drawPlatter(latest);
  drawPlatterSide(latest);
}

function drawAll() {
  if (!paused) shown = events;
  const latest = shown.at(-1);
  if (!latest || paused) return;
  const { drive, uptime_seconds } = latest.status;
  const model = drive.model ? `${drive.model}, ` : "";
  const up = span(uptime_seconds);
  setText($("drive"), `${model}${drive.locator}, policy ${drive.policy}, up ${up}`);
  const note = "The policy only accounts for shares; it does not enforce them.";
  setText($("shares-note"), note);
  const promised = latest.exports.some((share) => share.reserve_percent || share.limit_percent);
  $("shares-note").hidden = latest.enforces_shares || !promised;
  draw();
  drawWaits();
  drawMisses(latest);
  drawFigures(latest.status);
}

function receive(message) {
  const event = JSON.parse(message.data);
  const last = events.at(-1);
  // Another server, or the same one started again.
  if (last && event.status.uptime_seconds < last.status.uptime_seconds) events = [];
  const since = event.status.uptime_seconds - SECONDS;
  events = [...events, event].filter((other) => other.status.uptime_seconds > since);
  for (const { name } of event.exports) {
    if (!indexes.has(name)) indexes.set(name, indexes.size);
  }
  arrived = performance.now();
  report("live");
  drawAll();
}

function report(state) {
  setText($("connection"), state);
  $("connection").className = state === "live" ? "" : "alert";
}

function connect() {
  const source = new EventSource("events");
  source.onmessage = receive;
  source.addEventListener("end", () => report("the server has stopped"));
  source.onerror = () => {
    const refused = source.readyState === EventSource.CLOSED;
    if ($("connection").textContent !== "the server has stopped") report("not connected");
    if (!refused) return;
    report("not connected: too many pages are open, or the server has stopped");
    setTimeout(connect, 5000);
  };
}

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  drawAll();
});
withCursor($("stack"));
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  palette.clear();
  draw();
});
connect();
requestAnimationFrame(animate);
