// The live chart. Python sends one row for each moment, see dltutor/display/chart.py:
//   t: seconds; p: {role: [kB, open descriptors]}, bottom layer first; kind: PSS or USS; shm: kB in
//   /dev/shm; n: batches so far; gone: roles that ended; settled: [t, {role: kB}] of rows before it,
//   whose estimates a reading has improved.

const NEAR = 0.5; // the limit is drawn once this part of it is in use
const SURVIVE = 0.4; // seconds that the others outlive a worker whose end is worth a mark
const STALE = 3; // seconds without a row that are worth a word
const MOST_ROWS = 2400; // kept
const MOST_POINTS = 300; // of a curve

/** The rows so far, shared by all views of one chart. */
class History {
  constructor(window) {
    this.window = window;
    this.rows = [];
    this.arrived = performance.now();
  }

  get last() {
    return this.rows.at(-1);
  }

  add(row) {
    if (row.t === undefined || (this.last && row.t <= this.last.t)) return;
    this.rows.push({ ...row, sizes: mapped(row.p, ([size]) => size * 1024) });
    this.arrived = performance.now();
    for (const [t, sizes] of row.settled ?? []) {
      const before = this.rows.findLast((each) => each.t === t);
      if (before) before.sizes = mapped(before.sizes, (size, role) => (role in sizes ? sizes[role] * 1024 : size));
    }
    while (this.window && this.rows[0].t < row.t - this.window) this.rows.shift();
    if (this.rows.length > MOST_ROWS) this.rows = this.rows.filter((row, i) => i % 2 === 0 || row.gone);
  }

  /** Take rows from before, and those that were missed. */
  fill(more) {
    const all = [...this.rows, ...more].sort((a, b) => a.t - b.t);
    this.rows = [];
    all.forEach((row) => this.add(row));
  }

  /** Every role that is in the rows, bottom layer first. */
  roles(rows = this.rows) {
    const seen = new Set(rows.flatMap((row) => Object.keys(row.p)));
    return [...seen].sort(inOrder);
  }

  peak() {
    return Math.max(...this.rows.map(total), 0);
  }

  /** Batches a second over the second before row i. */
  rate(i) {
    const { rows } = this;
    let j = i;
    while (j > 0 && rows[j].t > rows[i].t - 1) j--;
    const batches = (rows[i].n ?? 0) - (rows[j].n ?? 0);
    return j < i ? batches / (rows[i].t - rows[j].t) : 0;
  }

  /** [role, seconds, how] of each death, and of each worker that ended while others went on. */
  marks(died) {
    const known = new Set(died.map(([role]) => role));
    const marks = died.map(([role, t, how]) => [role, t ?? this.last?.t ?? 0, how]);
    this.rows.forEach((row, i) => {
      const early = (row.gone ?? []).filter((role) => isWorker(role) && !known.has(role));
      if (early.length && this.outlived(i)) marks.push(...early.map((role) => [role, row.t, ""]));
    });
    return marks;
  }

  outlived(i) {
    let others = Object.keys(this.rows[i].p).filter(isWorker);
    for (const row of this.rows.slice(i + 1)) {
      others = others.filter((role) => !row.gone?.includes(role));
      if (row.t >= this.rows[i].t + SURVIVE) return others.length > 0;
    }
    return false;
  }
}

const mapped = (object, f) =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, f(value, key)]));
const sum = (values) => values.reduce((a, b) => a + b, 0);
const total = (row) => sum(Object.values(row.sizes));
const isWorker = (role) => /^W\d+( of .+)?$/.test(role); // of several loaders: W0 of images
const number = (role) => parseInt(role.slice(1));
const rank = (role) => (isWorker(role) ? 1 : role === "main" ? 0 : 2);
/** Main, the workers of each loader by number, the rest. */
const inOrder = (a, b) =>
  rank(a) - rank(b) || a.replace(/^W\d+/, "").localeCompare(b.replace(/^W\d+/, "")) || number(a) - number(b) || 0;

/** Bytes as people write them, in powers of 1024. */
function size(bytes) {
  const units = ["B", "kB", "MB", "GB"];
  while (bytes >= 1024 && units.length > 1) {
    bytes /= 1024;
    units.shift();
  }
  return `${bytes < 10 && bytes % 1 ? bytes.toFixed(1) : bytes.toFixed(0)} ${units[0]}`;
}

const count = (n, noun, plural) => `${n} ${n === 1 ? noun : plural}`;
const seconds = (t) => `${t < 9.95 ? t.toFixed(1) : t.toFixed(0)} s`;
const rounded = (n) => (n < 9.95 ? n.toFixed(1) : n.toFixed(0));

/** A round number of at least `value`. */
function nice(value, steps = [1, 2, 5, 10]) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * steps.find((step) => step * unit >= value * 0.9999);
}

const LEFT = 64; // for the numbers of the y axis
const RIGHT = 134; // for the legend at the leading edge
const PLOT = { top: 10, bottom: 200 };
const STRIP = { height: 28, gap: 12 };
const NAME = 14; // between two names of the legend
const LINE = 14; // between two other lines of text
const MOST_NAMES = 8; // workers named one by one
const NO_LIMIT = 100_000; // so many descriptors for a process are as good as no limit

function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const path = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L");

/** The drawing of the chart as SVG nodes, for one width. */
class Drawing {
  constructor(history, { width, palette, limits, end }) {
    Object.assign(this, { history, palette, limits, end, nodes: [] });
    const { rows, last, window } = history;
    this.right = Math.max(width, 280) - RIGHT;
    const step = Math.ceil(rows.length / MOST_POINTS);
    this.shown = rows.filter((row, i) => i % step === 0 || row === last);
    const start = window ? Math.max(last.t - window, 0) : 0;
    const span = Math.max(last.t, start + 4) - start;
    this.x = (t) => LEFT + (Math.max(t - start, 0) / span) * (this.right - LEFT);
    this.memory();
    this.bottom = PLOT.bottom + 4;
    this.sharedMemory();
    this.descriptors();
    if (last.n !== undefined) this.rates();
    this.timeAxis(start, span);
    this.height = this.bottom + 24;
  }

  put(tag, attributes, text) {
    this.nodes.push(svg(tag, attributes, text));
  }

  text(x, y, text, { anchor = "start", kind = "over" } = {}) {
    this.put("text", { x, y, class: kind, "text-anchor": anchor }, text);
  }

  color(role) {
    const { main, workers, other } = this.palette;
    if (isWorker(role)) return workers[number(role) % workers.length];
    return role === "main" ? main : other;
  }

  memory() {
    const { last } = this.history;
    const peak = this.history.peak();
    const limit = this.near(peak, this.limits.memory);
    const [top, ticks, label] = axis(Math.max(peak * 1.06, limit * 1.05, 1024 * 1024));
    const y = (bytes) => PLOT.bottom - (bytes / top) * (PLOT.bottom - PLOT.top);
    for (const tick of ticks) {
      this.put("line", { x1: LEFT, x2: this.right, y1: y(tick), y2: y(tick), class: "grid" });
      this.text(LEFT - 8, y(tick) + 4, label(tick), { anchor: "end", kind: "quiet" });
    }
    const names = this.layers(y);
    this.put("path", { class: "total", d: path(this.shown.map((row) => [this.x(row.t), y(total(row))])) });
    if (limit) this.limit(y(limit), `limit ${size(limit)}`);
    const marks = this.history.marks(this.end.died ?? []);
    marks.forEach((mark, i) => this.mark(y, mark, i));
    const marked = new Set(marks.map(([role]) => role));
    const whole = { text: `total ${size(total(last))}`, y: y(total(last)) - 8, kind: "over strong" };
    for (const [row, group] of names) {
      if (row === last && Object.keys(row.p).length > 1) group.push(whole);
      // A mark names its worker itself.
      this.legend(this.x(row.t) + 8, group.filter(({ role }) => row === last || !marked.has(role)));
    }
  }

  /** Draw the layers; return their names by the row at which each of them ends. */
  layers(y) {
    const floor = this.shown.map(() => 0);
    const names = new Map([[this.history.last, []]]);
    for (const role of this.history.roles(this.shown)) {
      const lower = this.shown.map((row, i) => [this.x(row.t), y(floor[i])]);
      this.shown.forEach((row, i) => (floor[i] += row.sizes[role] ?? 0));
      const upper = this.shown.map((row, i) => [this.x(row.t), y(floor[i])]);
      const area = path([...upper, ...lower.reverse()]) + "Z";
      this.put("path", { d: area, fill: this.color(role), "fill-opacity": 0.85, "data-role": role });
      this.put("path", { d: path(upper), class: "edge" });
      const at = this.shown.findLastIndex((row) => role in row.sizes);
      const row = this.shown[at];
      const name = { role, bytes: row.sizes[role], y: y(floor[at] - row.sizes[role] / 2) };
      names.set(row, [...(names.get(row) ?? []), name]);
    }
    return names;
  }

  /** The legend: names one above the other, each as near to its layer as there is room. */
  legend(x, group) {
    const workers = group.filter(({ role }) => role && isWorker(role));
    if (workers.length > MOST_NAMES) {
      const bytes = sum(workers.map((worker) => worker.bytes));
      const middle = sum(workers.map((worker) => worker.y)) / workers.length;
      const all = { role: workers[0].role, text: `${workers.length} workers ${size(bytes)}`, y: middle };
      group = [...group.filter((name) => !workers.includes(name)), all].sort((a, b) => b.y - a.y);
    }
    let free = PLOT.bottom - 4;
    for (const name of group) free = (name.y = Math.min(name.y, free)) - NAME;
    free = PLOT.top;
    for (const name of [...group].reverse()) free = (name.y = Math.max(name.y, free)) + NAME;
    for (const { role, bytes, text, y, kind } of group) {
      if (role) this.put("rect", { x, y: y - 4, width: 8, height: 8, fill: this.color(role) });
      this.text(role ? x + 13 : x, y + 4, text ?? `${role} ${size(bytes)}`, { kind: `${kind ?? "over"} legend` });
    }
  }

  /** The limit if it is within sight, or 0. */
  near(peak, limit) {
    return limit && peak > NEAR * limit ? limit : 0;
  }

  limit(y, text) {
    this.put("line", { x1: LEFT, x2: this.right, y1: y, y2: y, class: "line", stroke: this.palette.alarm });
    if (text) this.text(LEFT + 4, y + LINE, text);
  }

  /** A worker's end, where it was last seen. */
  mark(y, [role, t, how], i) {
    const row = this.history.rows.findLast((row) => row.t <= t && role in row.sizes);
    if (!row) return;
    const [x, top] = [this.x(row.t), y(total(row))];
    const style = how ? `stroke:${this.palette.alarm}` : "";
    this.put("line", { x1: x, x2: x, y1: PLOT.top, y2: PLOT.bottom, class: "mark", style });
    const cross = `M${x - 5},${top - 5}l10,10m0,-10l-10,10`;
    this.put("path", { d: cross, class: "cross", style, "data-mark": role });
    const words = `${role} ${how || "ended"}, it had ${size(row.sizes[role])}`;
    const late = x > (LEFT + this.right) / 2;
    const place = [x + (late ? -8 : 8), PLOT.top + LINE * (i + 0.5)];
    this.text(...place, words, { anchor: late ? "end" : "start", kind: "over strong" });
  }

  /** A small curve below what is drawn so far, named at its leading edge.
   *  lines: [color, values] each; limit: 0 for none; say: a value in words. */
  strip(label, value, lines, { peak, limit, say, filled }) {
    const top = this.bottom + STRIP.gap;
    const floor = (this.bottom = top + STRIP.height);
    const near = this.near(peak, limit);
    const highest = Math.max(peak, near) || 1;
    const y = (v) => floor - (v / highest) * STRIP.height;
    this.put("line", { x1: LEFT, x2: this.right, y1: floor, y2: floor, class: "grid" });
    this.text(LEFT - 8, top + 8, say(highest), { anchor: "end", kind: "quiet" });
    this.text(LEFT - 8, floor + 2, "0", { anchor: "end", kind: "quiet" });
    for (const [color, values] of lines) {
      const points = this.shown.map((row, i) => [this.x(row.t), values[i]]).filter(([, v]) => v != null);
      const curve = points.map(([x, v]) => [x, y(v)]);
      if (!curve.length) continue;
      const area = path([[curve[0][0], floor], ...curve, [curve.at(-1)[0], floor]]) + "Z";
      if (filled) this.put("path", { d: area, fill: color, "fill-opacity": 0.3 });
      this.put("path", { d: path(curve), class: "line", stroke: color });
    }
    if (near) this.limit(y(near));
    const x = this.x(this.history.last.t) + 8;
    this.text(x, top + 8, label, { kind: "over quiet" });
    this.text(x, top + 8 + LINE, value);
  }

  sharedMemory() {
    const { rows, last } = this.history;
    const limit = this.limits.shm;
    const used = (row) => (row.shm == null ? null : row.shm * 1024);
    const value = last.shm == null ? "none here" : size(used(last)) + (limit ? ` of ${size(limit)}` : "");
    const peak = Math.max(...rows.map(used), 1 << 20);
    const line = [this.palette.other, this.shown.map(used)];
    this.strip("/dev/shm", value, [line], { peak, limit, say: size, filled: true });
  }

  descriptors() {
    const { rows, last } = this.history;
    const limit = this.limits.files < NO_LIMIT ? this.limits.files : 0;
    const of = (row, role) => row.p[role]?.[1];
    const most = (row) => Math.max(...Object.keys(row.p).map((role) => of(row, role) ?? 0), 0);
    const curve = (role) => [this.color(role), this.shown.map((row) => of(row, role))];
    const lines = this.history.roles(this.shown).map(curve);
    const holder = Object.keys(last.p).find((role) => of(last, role) === most(last));
    const value = holder ? `${holder} ${most(last)}` + (limit ? ` of ${limit}` : "") : "not known";
    const peak = Math.max(...rows.map(most));
    this.strip("open descriptors", value, lines, { peak, limit, say: String });
  }

  rates() {
    const { rows, last } = this.history;
    const rates = new Map(rows.map((row, i) => [row, this.history.rate(i)]));
    const line = [this.palette.other, this.shown.map((row) => rates.get(row))];
    const peak = Math.max(...rates.values(), 1);
    this.strip("batches a second", rounded(rates.get(last)), [line], { peak, say: rounded, filled: true });
  }

  timeAxis(start, span) {
    const step = nice(span / 5);
    for (let t = Math.ceil(start / step) * step; t <= start + span; t += step) {
      this.text(this.x(t), this.bottom + 18, `${+t.toFixed(2)} s`, { anchor: "middle", kind: "quiet" });
    }
  }
}

/** The top of an axis in bytes that holds `peak`, its ticks, and how to write them. */
function axis(peak) {
  const [unit, name] = peak > 1000 * 1024 ** 2 ? [1024 ** 3, "GB"] : [1024 ** 2, "MB"];
  const step = nice(peak / unit / 5, [1, 2, 2.5, 5, 10]) * unit;
  const steps = Math.ceil(peak / step);
  const label = (tick) => (tick ? `${+(tick / unit).toFixed(2)} ${name}` : "0");
  return [steps * step, Array.from({ length: steps + 1 }, (_, i) => i * step), label];
}

/** The state of the run in one line. */
function state(history, end) {
  const { last } = history;
  if (!last) return end.how ?? "waiting for the first sample";
  const silent = (performance.now() - history.arrived) / 1000;
  const parts = [end.how ?? "running", seconds(last.t)];
  if (last.n !== undefined) parts.push(count(last.n, "batch", "batches"));
  if (!end.how && silent > STALE) parts.push(`no sample for ${seconds(silent)}`);
  return parts.join(", ");
}

/** The chart in words. */
function story(history, limits, end) {
  const { last, rows } = history;
  if (!last) return "";
  const sizes = Object.entries(last.sizes).map(([role, bytes]) => `${role} ${size(bytes)}`);
  const parts = [`${last.kind || "Memory"}: ${sizes.join(", ")}, total ${size(total(last))}`];
  if (limits.memory) parts.push(`limit ${size(limits.memory)}`);
  if (last.shm != null) parts.push(`/dev/shm ${size(last.shm * 1024)}`);
  const open = Object.entries(last.p).map(([role, [, fds]]) => `${role} ${fds ?? "not known"}`);
  parts.push(`open descriptors: ${open.join(", ")}`);
  if (last.n !== undefined) parts.push(`${rounded(history.rate(rows.length - 1))} batches a second`);
  const marks = history.marks(end.died ?? []);
  parts.push(...marks.map(([role, t, how]) => `${role} ${how || "ended"} at ${seconds(t)}`));
  return parts.join(". ");
}

/** What is small print: how the figures are made, and the limit that is out of sight. */
function caption(history, limits) {
  const limit = limits.memory;
  const far = limit && history.peak() <= NEAR * limit ? ` Limit ${size(limit)}, above the chart.` : "";
  if (history.last.kind === "USS") return `Private memory (USS): this system has no PSS.${far}`;
  return `Memory is PSS, read about twice a second and estimated in between.${far}`;
}

/** One place on the page where the chart is shown. */
class View {
  constructor(model, history, el) {
    this.model = model;
    this.history = history;
    this.paints = 0;
    this.root = document.createElement("div");
    this.root.className = "dltutor-chart";
    this.root.dataset.testid = "dltutor-chart";
    this.root.setAttribute("role", "figure");
    this.root.innerHTML =
      '<details open><summary><b></b><span></span></summary><svg aria-hidden="true"></svg><p></p></details>';
    [this.details, this.title, this.state, this.svg, this.caption] = ["details", "b", "span", "svg", "p"].map(
      (tag) => this.root.querySelector(tag),
    );
    el.replaceChildren(this.root);
    this.resized = new ResizeObserver(() => this.soon());
    this.resized.observe(this.root);
    this.timer = setInterval(() => this.soon(), 1000); // for the words when no sample comes
    this.paint();
  }

  /** Paint once before the browser shows its next frame, however often it is asked. */
  soon() {
    this.frame ??= requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.frame = undefined;
    const { model, history } = this;
    const [limits, end] = [model.get("limits"), model.get("end")];
    const words = state(history, end);
    this.title.textContent = model.get("title");
    this.state.textContent = words;
    this.root.setAttribute("aria-label", `${model.get("title")}: ${words}. ${story(history, limits, end)}`);
    if (history.last) {
      const width = this.root.clientWidth;
      const drawing = new Drawing(history, { width, palette: model.get("palette"), limits, end });
      this.svg.setAttribute("viewBox", `0 0 ${drawing.right + RIGHT} ${drawing.height}`);
      this.svg.setAttribute("height", drawing.height);
      this.svg.replaceChildren(...drawing.nodes);
      this.caption.textContent = caption(history, limits);
    }
    const marks = history.marks(end.died ?? []).map(([role, , how]) => `${role} ${how || "ended"}`);
    Object.assign(this.root.dataset, {
      state: end.how ? "ended" : history.last ? "running" : "waiting",
      rows: history.rows.length,
      paints: ++this.paints,
      series: history.roles().join(" "),
      marks: marks.join("; "),
    });
  }

  fold() {
    this.details.open = false;
  }

  close() {
    this.resized.disconnect();
    clearInterval(this.timer);
    if (this.frame) cancelAnimationFrame(this.frame);
  }

  /** Leave a word behind where the chart was. */
  leave() {
    this.close();
    this.root.replaceWith("The chart has moved to a later cell.");
  }
}

export default () => {
  let history;
  const views = new Set();
  const paint = () => views.forEach((view) => view.soon());
  return {
    initialize({ model }) {
      history = new History(model.get("window"));
      history.fill(model.get("history"));
      history.add(model.get("row"));
      model.on("change:history", () => history.fill(model.get("history")));
      model.on("change:row", () => {
        history.add(model.get("row"));
        paint();
      });
      model.on("change:end", () => {
        paint();
        if (model.get("end").folded) views.forEach((view) => view.fold());
      });
    },
    render({ model, el }) {
      if (model.get("alone")) {
        views.forEach((view) => view.leave());
        views.clear();
      }
      const view = new View(model, history, el);
      if (model.get("end").folded) view.fold();
      views.add(view);
      return () => {
        view.close();
        views.delete(view);
      };
    },
  };
};
