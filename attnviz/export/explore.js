// Draws every head of a record. Texts of a person reach the page as textContent or as paint, never as markup or code.

const data = JSON.parse(document.getElementById("data").textContent);
const live = globalThis.live;  // of a page that holds its model; see live/live.js
const $ = id => document.getElementById(id);
const NAN = data.bits === 16 ? 65535 : 255, LAST = NAN - 1, DIGITS = data.bits === 16 ? 4 : 3;
const WIDE_MOSAIC = live ? 420 : 560, SWITCH = live ? 30 : 0;  // pixels; the second for the switch under each head
const SHADES = 248, MOST_LINES = 400, LEFT = 56, GAP = 4;
const VIEWS = {map: "Map", lines: "Lines", text: "Text"};
const COLORS = ["adaptive", "0 to 1", "0 to largest", "logarithmic"];
const state = {site: data.opens[0], head: data.opens[1], cell: null, pin: null, as: "map", colors: COLORS[0]};
const dark = matchMedia("(prefers-color-scheme: dark)"), printed = matchMedia("print"), touch = matchMedia("(hover: none)");
let theme, palettes, fonts, hovered = null, saving = false, link = "";
const drawn = {};  // where things stand: mosaic, frame, map and lines

const make = (tag, text = "", set = {}) => Object.assign(document.createElement(tag), {textContent: text}, set);
const within = (tag, children) => { const made = make(tag); made.append(...children); return made; };
const limit = (least, value, most) => Math.max(least, Math.min(value, most));
const percent = p => p === null ? "NaN" : p > 0 && p < 0.001 ? "<0.1%" : `${(p * 100).toFixed(1)}%`;
const twoDigits = w => w > 0 && w < 0.0995 ? w < 0.0001 ? "less than 0.0001" : `${+w.toPrecision(2)}` : w.toFixed(2);
const isolated = text => /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(text) ? `\u2068${text}\u2069` : text;
const cut = text => { const all = [...text]; return all.length > 16 ? `${all.slice(0, 15).join("")}…` : text; };
const site = () => data.sites[state.site];
const tokens = side => data.texts[side === "q" ? site().queries : site().keys];
const called = (side, i) => `${isolated(tokens(side)[i][0])} (${i})`;
const filled = (name, parts) => data.says[name].replace(/\{(\w+)\}/g, (_, part) => parts[part]);
const inQuotes = text => isolated(filled("word", {text}));
const quoted = (side, i) => filled("token", {text: isolated(tokens(side)[i][0]), place: i});
const predictedAt = q => site().predicts ? data.predicted.words?.[q]?.words[0]?.[0] : undefined;
const onPaper = () => saving || printed.matches;
const isToken = place => typeof place?.[0] === "string";  // ["q", 2], not a cell [2, 1]

// Weights: levels of 16 bits in two planes, or of 8 bits; see explore.py

async function unpack(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function read(s) {
  const place = $(`weights-${s}`), one = data.sites[s], bytes = await unpack(place.textContent), half = bytes.length / 2;
  place.remove();
  const levels = data.bits === 8 ? bytes : new Uint16Array(half);
  if (data.bits === 16) for (let i = 0; i < half; i++) levels[i] = bytes[i] | bytes[half + i] << 8;
  for (const head of one.heads) head.empty = new Set(head.empty);
  one.levels = levels;
}

const shares = Float64Array.from({length: NAN + 1}, (_, level) =>
  level === NAN ? NaN : data.bits === 16 ? level / LAST : (level / LAST) ** 2);
const weightAt = (of, i) => of.top * shares[of.levels[i]];

// Levels and rules of a head; of tiles the largest, and the rule of those that are blocked altogether.
function cells(s = state.site, h = state.head, tile = 1) {
  const one = data.sites[s], [Q, K] = one.shape, size = Q * K, head = one.heads[h];
  const levels = one.levels.subarray(h * size, (h + 1) * size), rules = data.grids[head.grid] ?? new Uint8Array(size);
  const found = {rows: Q, columns: K, levels, rules, tile, head, top: one.top};
  if (tile === 1) return found;
  const rows = Math.ceil(Q / tile), columns = Math.ceil(K / tile);
  const most = new Uint16Array(rows * columns), open = new Uint8Array(rows * columns);
  for (let q = 0, i = 0; q < Q; q++) for (let k = 0; k < K; k++, i++) {
    const to = (q / tile | 0) * columns + (k / tile | 0);
    if (levels[i] > most[to]) most[to] = levels[i];
    if (!rules[i]) open[to] = 1;
  }
  const first = most.map((_, i) => open[i] ? 0 : rules[(i / columns | 0) * tile * K + i % columns * tile]);
  return {...found, rows, columns, levels: most, rules: first};
}

// "nan", "blocked", "empty" or "weight"; a fully masked row shows the weights that it was filled with.
function kindOf(of, i) {
  if (of.levels[i] === NAN) return "nan";
  if (of.head.empty.has((i / of.columns | 0) * of.tile)) return of.levels[i] ? "weight" : "empty";
  return of.rules[i] ? "blocked" : "weight";
}

// The strongest cells as [query, key, weight], the strongest last; all of one token, if it is given.
function strongest(token) {
  const of = cells(), K = of.columns, counts = new Uint32Array(NAN + 1), found = [];
  const belongs = i => !token || (token[0] === "q" ? i / K | 0 : i % K) === token[1];
  const wanted = i => of.levels[i] && belongs(i) && kindOf(of, i) === "weight";
  for (let i = 0; i < of.levels.length; i++) if (wanted(i)) counts[of.levels[i]]++;
  let least = NAN, sum = 0;
  while (least > 1 && sum < (token ? Infinity : MOST_LINES)) sum += counts[--least];
  for (let i = 0; i < of.levels.length; i++)
    if (of.levels[i] >= least && wanted(i)) found.push([i / K | 0, i % K, weightAt(of, i)]);
  return found.sort((a, b) => a[2] - b[2]).slice(token ? 0 : -MOST_LINES);
}

function strongestCell() {  // a query with one key left gives it 1, whatever the head does
  const of = cells(), K = of.columns;
  let best = null, most = 0;
  for (let i = 0; i < of.levels.length; i++) {
    if (of.levels[i] <= most || kindOf(of, i) !== "weight") continue;
    const row = (i / K | 0) * K, open = of.rules.subarray(row, row + K).reduce((sum, rule) => sum + !rule, 0);
    if (open > 1 || K === 1) [best, most] = [[i / K | 0, i % K], of.levels[i]];
  }
  return best;
}

// Colors and strokes, as in the app

const rgb = color => [1, 3, 5].map(i => parseInt(color.slice(i, i + 2), 16));
const packed = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
const parts = color => [0, 8, 16].map(n => color >>> n & 255);

function choose() {
  theme = data.themes[dark.matches && !onPaper() ? "dark" : "light"];
  const stops = theme.ramp.map(rgb), last = stops.length - 1;
  const grays = stops.map(([r, g, b]) => Array(3).fill(Math.round(0.299 * r + 0.587 * g + 0.114 * b)));
  palettes = [stops, grays].map(colors => Uint32Array.from({length: SHADES}, (_, i) => {
    const x = i / (SHADES - 1) * last, j = Math.min(last - 1, x | 0);
    return packed(colors[j].map((c, n) => Math.round(c + (colors[j + 1][n] - c) * (x - j))));
  }));
  const style = getComputedStyle(document.documentElement);
  fonts = {words: style.getPropertyValue("--font"), mono: style.getPropertyValue("--mono")};
}

function shader(s = state.site, h = state.head) {  // where a weight stands on the ramp, and what the legend says
  const one = data.sites[s], head = one.heads[h], {fixed, shared, log} = data.captions, palette = palettes[head.off ? 1 : 0];
  const color = at => weight => palette[Math.round(limit(0, at(weight), 1) * (SHADES - 1))];
  if (state.colors === "logarithmic")
    return {color: color(w => 1 + Math.log10(limit(1e-4, w, 1)) / 4), ends: ["0.0001", "1"], caption: log};
  const top = {"adaptive": head.ends ?? 1, "0 to 1": 1, "0 to largest": Math.max(...one.heads.map(({largest}) => largest)) || 1}[state.colors];
  const caption = {"adaptive": head.caption ?? fixed, "0 to 1": fixed, "0 to largest": shared}[state.colors];
  return {color: color(w => w / top), ends: ["0", `${+top.toPrecision(3)}`], caption};
}

// Strokes of a rule across a box, whose clipping the context knows: rising, falling or both.
function hatch(context, rule, [x, y, width, height]) {
  for (const rises of [[1], [0], [0, 1]][(rule - 1) % 3])
    for (let i = -height; i < width; i += 11)
      segment(context, theme.hatch, 1, 1, x + i, y + rises * height, x + i + height, y + (1 - rises) * height);
}

// The cells of a head in a box: one pixel for each cell, enlarged; strokes over blocked cells, and a cross over NaN.
function paint(context, box, s, h, tile) {
  const of = cells(s, h, tile), {rows, columns, rules} = of, {color} = shader(s, h), [x, y, width, height] = box;
  const kinds = Array.from(of.levels, (_, i) => kindOf(of, i)), blocked = packed(rgb(theme.blocked)), image = new ImageData(columns, rows);
  new Uint32Array(image.data.buffer).set(kinds.map((kind, i) => kind === "weight" ? color(weightAt(of, i)) : blocked));
  const small = make("canvas", "", {width: columns, height: rows}), wide = width / columns, high = height / rows;
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, x, y, width, height);
  const left = i => x + i % columns * wide, top = i => y + (i / columns | 0) * high;
  for (const rule of new Set(rules)) if (rule) {
    context.save();
    context.beginPath();
    for (let i = 0, end; i < rules.length; i = end) {
      for (end = i + 1; end % columns && rules[end] === rules[i];) end++;
      if (rules[i] === rule) context.rect(left(i), top(i), (end - i) * wide, high);
    }
    context.clip();
    hatch(context, rule, box);
    context.restore();
  }
  for (const [i, kind] of kinds.entries()) if (kind === "nan") {
    segment(context, theme.warning, 1, 1, left(i), top(i), left(i) + wide, top(i) + high);
    segment(context, theme.warning, 1, 1, left(i), top(i) + high, left(i) + wide, top(i));
  }
}

function fit(canvas, width, height) {  // size in pixels of CSS, sharp on a screen, on paper and in a file
  const dot = onPaper() ? 3 : devicePixelRatio || 1, context = canvas.getContext("2d");
  Object.assign(canvas, {width: Math.round(width * dot), height: Math.round(height * dot)});
  Object.assign(canvas.style, {width: `${width}px`, height: `${height}px`});
  context.setTransform(dot, 0, 0, dot, 0, 0);
  Object.assign(context, {textBaseline: "middle", fillStyle: theme.background});
  if (saving) context.fillRect(0, 0, width, height);
  return context;
}

function write(context, text, x, y, {color = theme.quiet, align = "left", font = fonts.words, bold = false, turned = false} = {}) {
  Object.assign(context, {fillStyle: color, textAlign: align, font: `${bold ? "600 " : ""}12px ${font}`});
  context.save();
  context.translate(x, y);
  if (turned) context.rotate(-Math.PI / 2);
  context.fillText(text, 0, 0);
  context.restore();
}

function frame(context, color, width, ...box) {
  Object.assign(context, {strokeStyle: color, lineWidth: width});
  context.strokeRect(...box);
}

function segment(context, color, width, opacity, ...[x1, y1, x2, y2]) {
  Object.assign(context, {strokeStyle: color, lineWidth: width, globalAlpha: opacity});
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
  context.globalAlpha = 1;
}

// Every head

function mosaic() {
  const most = Math.max(...data.sites.map(one => one.heads.length)), room = document.querySelector("main").clientWidth;
  const side = limit(14, Math.floor(((room > 852 ? WIDE_MOSAIC : room) - LEFT) / most) - GAP, 110), step = side + GAP;
  const places = [];
  let y = 0;
  for (const kind of new Set(data.sites.map(one => one.kind))) {
    y += 24;
    for (const [s, one] of data.sites.entries()) if (one.kind === kind) { places[s] = y; y += step + SWITCH; }
    y += 10;
  }
  const context = fit($("mosaic"), LEFT + most * step, y - 8);
  drawn.mosaic = {places, side, step, context};
  drawn.frame = null;
  places.forEach((_, s) => thumbnails(s));
  outline();
}

function thumbnails(s) {
  const {places, side, step, context} = drawn.mosaic, one = data.sites[s], y = places[s];
  const tile = Math.max(1, Math.ceil(Math.max(...one.shape) / side)), first = data.sites.find(other => other.kind === one.kind);
  if (one === first) write(context, one.kind, 0, y - 11, {color: theme.text});
  write(context, `layer ${one.layer}`, 0, y + side / 2);
  for (const [h, head] of one.heads.entries()) {
    const x = LEFT + h * step;
    if (one === first && h % (step < 22 ? 5 : 1) === 0) write(context, h, x + side / 2, y - 11, {align: "center"});
    context.fillStyle = theme.blocked;
    if (!one.levels) context.fillRect(x, y, side, side);
    else if (one.shape[0] * one.shape[1]) paint(context, [x, y, side, side], s, h, tile);
    if (head.off) segment(context, theme.text, 1, 1, x, y + side, x + side, y);
  }
}

function outline() {  // a frame in the gaps around the chosen head
  const {places, side, step, context} = drawn.mosaic;
  if (drawn.frame) frame(context, theme.background, 3, ...drawn.frame);
  drawn.frame = [LEFT + state.head * step - 1.5, places[state.site] - 1.5, side + 3, side + 3];
  frame(context, theme.accent, 2, ...drawn.frame);
}

// One head as a map

function widest(context, labels) {
  context.font = `12px ${fonts.mono}`;
  return Math.max(0, ...labels.map(text => context.measureText(text).width));
}

function plan() {  // where the map stands, as large as there is room; what rows predict, where that fits
  const [Q, K] = site().shape, most = Math.max(Q, K, 1), context = $("picture").getContext("2d"), width = $("one").clientWidth;
  const labels = {}, room = data.before && width > 640 ? width / 2 - 12 : width, {empty} = site().heads[state.head];
  for (const side of "qk") labels[side] = tokens(side).map(([text]) => cut(text));
  const predicts = q => predictedAt(q) ? `→ ${cut(predictedAt(q))}` : "";
  let ends = labels.q.map((_, q) => empty.has(q) ? data.policies[site().policy] : predicts(q));
  const left = widest(context, labels.q) + 34, high = widest(context, labels.k);
  const wanted = most <= 9 ? Math.min(60, 420 / most | 0) : most <= 32 ? limit(14, 512 / most | 0, 44) : 640 / most;
  const caption = labels.q.some((_, q) => predicts(q)) ? "predicts" : "";
  if (room - left - widest(context, [...ends, caption]) - 12 < Math.min(24, wanted) * K) ends = [];
  const end = ends.length ? widest(context, [...ends, caption]) + 12 : 4;
  const cell = Math.max(most > 32 ? 2 : 11, Math.min(wanted, (room - left - end) / K)), turned = high > cell - 4;
  const every = [1, 2, 4, 5, 8, 10, 15, 20, 40].find(n => n * cell >= (n === 1 ? 11 : 14)) ?? 80;
  return {Q, K, labels, ends, caption, left, top: (turned ? high : 14) + 36, end, cell, turned, every};
}

function map(canvas = $("picture")) {
  const found = plan(), {Q, K, labels, ends, caption, left, top, end, cell, every} = found, {empty} = site().heads[state.head];
  const context = fit(canvas, left + K * cell + end, top + Q * cell + 4);
  drawn.map = {...found, context};
  write(context, "Key (to)", left + K * cell / 2, 8, {align: "center"});
  write(context, "Query (from)", 8, top + Q * cell / 2, {align: "center", turned: true});
  if (Q * K) paint(context, [left, top, K * cell, Q * cell], state.site, state.head, 1);
  for (const side of "qk") for (let i = 0; i < labels[side].length; i += every) label(side, i);
  if (ends.length) write(context, caption, left + K * cell + 8, top - 12, {color: theme.quiet});
  for (let q = 0; q < ends.length; q += every) {
    const look = {color: empty.has(q) ? theme.warning : theme.quiet, font: fonts.mono};
    write(context, ends[q], left + K * cell + 8, top + (q + 0.5) * cell, look);
  }
  for (const q of empty) frame(context, theme.warning, 1.5, left, top + q * cell, K * cell, cell);
  drawn.map.clean = context.getImageData(0, 0, canvas.width, canvas.height);
  marks();
}

function look(side, i, chosen) {
  return {color: chosen ? theme.accent : tokens(side)[i][1] ? theme.quiet : theme.text, font: fonts.mono, bold: chosen};
}

function label(side, i, chosen = false) {
  const {left, top, cell, turned, labels, context} = drawn.map, at = (i + 0.5) * cell, text = labels[side][i];
  const how = look(side, i, chosen);
  if (side === "q") return write(context, text, left - 6, top + at, {...how, align: "right"});
  write(context, text, left + at, turned ? top - 6 : top - 12, {...how, turned, align: turned ? "left" : "center"});
}

function original() {  // beside a map that is changed, that of the original model
  const {before, sites, texts, grids, predicted} = data, kept = drawn.map, shown = before && state.as === "map";
  $("before").hidden = !shown;
  if (!shown) return;
  Object.assign(data, before);
  map($("original"));
  Object.assign(data, {sites, texts, grids, predicted});
  drawn.map = kept;
}

function png() {  // the map or the lines as a file: light, on white, with three pixels for each of the screen
  const kept = {...drawn}, hover = hovered, canvas = make("canvas");
  [saving, hovered] = [true, null];
  choose();
  (state.as === "lines" ? lines : map)(canvas);
  Object.assign(drawn, kept);
  [saving, hovered] = [false, hover];
  choose();
  return new Promise(done => canvas.toBlob(done));
}

function marks() {  // the cell under the pointer and the chosen one, over the map as it was painted
  const {left, top, cell, context, every, clean} = drawn.map, grown = Math.max(0, (7 - cell) / 2), side = cell + 2 * grown;
  const around = ([q, k], color, width) => frame(context, color, width, left + k * cell - grown, top + q * cell - grown, side, side);
  context.putImageData(clean, 0, 0);
  if (hovered) around(hovered, theme.text, 1);
  if (!state.cell) return;
  around(state.cell, theme.accent, 2.5);
  if (every === 1) [..."qk"].forEach((side, n) => label(side, state.cell[n], true));
}

// One head as lines

function lines(canvas = $("picture")) {
  const [Q, K] = site().shape, measured = canvas.getContext("2d"), of = cells(), labels = {};
  for (const side of "qk") labels[side] = tokens(side).map(([text]) => cut(text));
  const room = $("one").clientWidth, empty = room < 500 ? "▭" : data.policies[site().policy];
  const notes = labels.q.map((_, q) => of.head.empty.has(q) ? empty : of.levels[q * K] === NAN ? "NaN" : "");
  const wide = {q: widest(measured, labels.q), k: widest(measured, labels.k)};
  const left = wide.q + widest(measured, notes) + 62, right = wide.k + 62;
  const gap = limit(120, room - left - right, 300), cell = limit(15, 420 / Math.max(Q, K, 1) | 0, 38);
  const pin = isToken(hovered) ? hovered : state.pin, shown = strongest(pin), x = {q: left, k: left + gap};
  const context = fit(canvas, left + gap + right, Math.max(Q, K) * cell + 30), y = i => 30 + (i + 0.5) * cell;
  const draw = ([q, k], ...style) => segment(context, ...style, x.q + 4, y(q), x.k - 4, y(k));
  for (const line of shown) draw(line, of.head.off ? theme.quiet : theme.hues[0], Math.max(Q, K) > 24 ? 2 : 2.5, line[2] ** 0.6);
  for (const one of [hovered, state.cell]) if (one && !isToken(one)) draw(one, theme.accent, 1.25, 1);
  const put = (side, i, text, far, style) =>
    write(context, text, x[side] + (side === "q" ? -far : far), y(i), {align: side === "q" ? "right" : "left", ...style});
  for (const [side, title] of [["q", "Query (from)"], ["k", "Key (to)"]]) {
    write(context, title, x[side], 8, {align: side === "q" ? "right" : "left"});
    labels[side].forEach((text, i) => put(side, i, text, 6, look(side, i, pin?.[0] === side && pin[1] === i)));
  }
  notes.forEach((text, q) => put("q", q, text, widest(context, [labels.q[q]]) + 18, {color: theme.warning}));
  const other = pin?.[0] === "q" ? "k" : "q";
  if (pin) for (const [q, k, w] of shown) put(other, other === "k" ? k : q, w.toFixed(DIGITS), wide[other] + 14);
  drawn.lines = {x, y, cell, shown, Q, K};
}

// The text, shaded by one token

const sameText = () => site().queries === site().keys && site().kind !== "cross";
const shadedBy = () => state.pin ?? ["q", focus()?.[0] ?? 0];

function text() {
  const place = $("text"), last = document.activeElement?.closest("#text button")?.dataset, [side] = shadedBy();
  const all = part => tokens(part).map((_, i) => word(part, i)), title = (part, name) => [make("h3", name), ...all(part)];
  place.replaceChildren(...(sameText() ? all(side === "q" ? "k" : "q") : [...title("q", "Query (from)"), ...title("k", "Key (to)")]));
  place.dir = /^[^A-Za-z]*[\u0590-\u08ff]/.test(tokens("q").map(([one]) => one).join("")) ? "rtl" : "ltr";
  if (last) place.querySelector(`[data-side="${last.side}"][data-i="${last.i}"]`)?.focus();
}

function word(part, i) {  // a token as a button, on the color of its weight and with its digits
  const [side, index] = shadedBy(), of = cells(), shaded = sameText() || part !== side, chosen = i === index && (sameText() || !shaded);
  const [q, k] = side === "q" ? [index, i] : [i, index], made = make("button", "", {type: "button", tabIndex: chosen ? 0 : -1});
  const ground = make("span", isolated(tokens(part)[i][0])), name = called(part, i);
  made.append(ground);
  Object.assign(made.dataset, {side: sameText() ? side : part, i});
  made.classList.toggle("joined", i > 0 && !!tokens(part)[i][2]);
  made.setAttribute("aria-pressed", chosen);
  made.setAttribute("aria-label", shaded ? `${name}: ${stateOf([q, k])}` : name);
  if (!shaded) return made;
  const cell = q * of.columns + k, kind = kindOf(of, cell), weight = weightAt(of, cell);
  const color = kind === "weight" ? parts(shader().color(weight)) : rgb(theme.blocked);
  const light = color => color.reduce((a, b) => a + b), far = ink => Math.abs(light(rgb(ink)) - light(color));
  ground.style.background = `rgb(${color})`;
  ground.style.color = far(theme.text) > far(theme.background) ? theme.text : theme.background;
  made.append(make("small", kind === "nan" ? "NaN" : kind === "weight" ? weight.toFixed(2) : "–"));
  return made;
}

// Words

function stateOf([q, k]) {  // the weight of a cell, and why it is what it is
  const of = cells(), i = q * of.columns + k, rule = of.rules[i] && site().reasons[of.rules[i] - 1];
  const empty = of.head.empty.has(q) && data.policies[site().policy], nan = of.levels[i] === NAN;
  const why = [nan && "NaN: not a number", empty, rule].filter(Boolean).join(", ") || "may attend";
  return nan ? why : `${data.bits === 8 ? "about " : ""}${weightAt(of, i).toFixed(DIGITS)} · ${why}`;
}

function sentence([q, k]) {  // the sentences of attnviz.analysis.sentences, filled in
  const of = cells(), i = q * of.columns + k, rule = of.rules[i];
  const parts = {query: quoted("q", q), key: quoted("k", k), share: data.says.share, filled: data.filled[site().policy]};
  const says = (name, more) => {
    const text = filled(name, {...parts, ...more});
    return of.head.off ? text.replace(/\.$/, data.says.off) : text;
  };
  if (of.head.empty.has(q)) return says("empty");
  if (rule) return says("blocked", {reason: site().reasons[rule - 1]});
  if (of.levels[i] === NAN) return says("nan");
  const what = data.predicted.what;
  const begin = predictedAt(q) ? filled("predicts", {what, word: inQuotes(predictedAt(q))}) : "";
  return begin + says("weight", {weight: twoDigits(weightAt(of, i))});
}

function readout() {
  const on = hovered && !isToken(hovered) ? hovered : state.cell, what = `a ${state.as === "map" ? "cell" : "token"}`;
  const hint = touch.matches ? `Tap ${what}.` : state.as === "text" ? `Click ${what}.` : `Point at ${what}; click to keep it.`;
  const name = ([q, k]) => `${called("q", q)} → ${called("k", k)}: ${stateOf([q, k])}`;
  const most = isToken(hovered) && strongest(hovered).at(-1);
  $("readout").textContent = most ? `most: ${name(most)}` : on ? name(on) : hint;
}

function focus() {  // the cell that words are about: the chosen one, or the strongest of the picked token, or of all
  const picked = state.as !== "map" && state.pin && strongest(state.pin).at(-1);
  return state.as === "text" && picked || state.cell || picked || strongestCell();
}

const nameOf = (s, h) => `Head ${h} of ${data.sites[s].name}${data.sites[s].heads[h].off ? " (off)" : ""}`;

function words() {
  const at = focus(), [Q, K] = site().shape, name = nameOf(state.site, state.head);
  $("name").textContent = name;
  $("words").textContent = at ? sentence(at) : "No weight is above zero.";
  const told = `${name}, ${Q} queries by ${K} keys. ${$("words").textContent} Arrow keys move over its cells.`;
  $("picture").setAttribute("aria-label", told);
  $("mosaic").setAttribute("aria-label", `Every head. Arrow keys choose one. Chosen: ${name}`);
  predictions(at?.[0]);
}

function legend() {
  const {ends, caption} = shader(), of = cells(), rules = [...new Set(of.rules)].filter(Boolean).sort((a, b) => a - b);
  const ramp = make("span", "", {className: "ramp"}), colors = palettes[of.head.off ? 1 : 0].filter((_, i) => i % 13 === 0);
  ramp.style.background = `linear-gradient(to right, ${[...colors].map(color => `rgb(${parts(color)})`)})`;
  const opacity = [`the stronger a line, the larger the weight; drawn: ${drawn.lines?.shown.length}`];
  const items = [state.as === "lines" ? opacity : [ends[0], ramp, ends[1], make("span", caption)]];
  items.push(...rules.slice(0, 12).map(rule => [swatch(rule), site().reasons[rule - 1]]));
  if (rules.length > 12) items.push([`${rules.length - 12} more combinations of rules: each cell names its own`]);
  if (of.levels.includes(NAN)) items.push([make("b", "×"), "NaN: not a number"]);
  if (of.head.empty.size) items.push([make("b", "▭"), data.policies[site().policy]]);
  if (data.bits === 8) items.push(["weights are rounded to 8 bits, by at most 0.004"]);
  $("legend").replaceChildren(...items.map(item => within("li", item)));
}

function swatch(rule) {
  const canvas = make("canvas"), context = fit(canvas, 16, 16);
  context.fillStyle = theme.blocked;
  context.fillRect(0, 0, 16, 16);
  hatch(context, rule, [0, 0, 16, 16]);
  return canvas;
}

function table(caption, head, rows) {
  const kind = text => /^[−\d.<%]+$|^NaN$|^−∞$/.test(text) ? "number" : "";
  const row = (tag, texts, set) => within("tr", texts.map((text, i) => make(tag, text, set(text, i))));
  const number = rows[0]?.map(kind) ?? [];
  return within("table", [
    make("caption", caption),
    within("thead", [row("th", head, (_, i) => ({scope: "col", className: number[i] ?? ""}))]),
    within("tbody", rows.map(texts => row("td", texts, text => ({className: kind(text)})))),
  ]);
}

function predictions(query) {  // before and after, where the record of a run without changes was given
  const {words, where, written, labels} = data.predicted, after = where === "after", made = [];
  const listed = (caption, found) => {
    const before = found.some(one => one[2] !== null);
    const number = typeof found[0][1] === "string", value = number ? text => text : percent;
    const rows = found.map(([text, now, was]) => [isolated(text), value(now), ...(before ? [value(was)] : [])]);
    return table(caption, ["word", number ? "number" : "probability", ...(before ? ["before"] : [])], rows);
  };
  if (written && !live) made.push(make("h3", "Translation"), make("p", written[0], {dir: "auto"}));
  if (written?.length > 1 && !live) made.push(make("p", `before: ${written[1]}`, {className: "quiet"}));
  if (labels) made.push(make("h3", "Predictions"), listed("The most probable labels", labels.slice(0, 8)));
  const at = words?.[query] ? query : Object.keys(words ?? {}).at(-1);
  if (at !== undefined && (site().predicts || !written)) {
    const token = `${where} ${filled("token", {text: isolated(words[at].token), place: at})}`;
    const none = make("p", `The probabilities of the words ${token} are not numbers.`);
    const caption = `Most probable ${where === "of" ? "label " : ""}${token}`;
    made.push(make("h3", after ? "Predicted next word" : "Predictions"), words[at].words.length ? listed(caption, words[at].words) : none);
  }
  $("predicted").replaceChildren(...made);
}

function numbers() {  // the strongest keys of each query, for those who read rather than see
  if (!$("numbers").open) return;
  const of = cells(), K = of.columns, value = (q, k) => weightAt(of, q * K + k);
  const rows = tokens("q").map((_, q) => {
    const keys = [...Array(K).keys()], sum = keys.reduce((sum, k) => sum + value(q, k), 0);
    const best = keys.filter(k => value(q, k) > 0).sort((a, b) => value(q, b) - value(q, a)).slice(0, 3);
    const most = best.flatMap(k => [called("k", k), value(q, k).toFixed(DIGITS)]);
    const note = of.head.empty.has(q) ? data.policies[site().policy] : "";
    return [called("q", q), ...most, ...Array(6 - most.length).fill(""), Number.isNaN(sum) ? "NaN" : sum.toFixed(3), note];
  });
  const head = ["Query (from)", "looks most at", "weight", "then at", "weight", "then at", "weight", "sum of all", "note"];
  $("numbers").lastElementChild.replaceChildren(table(`${$("name").textContent}: the strongest keys of each query`, head, rows));
}

// What is shown, and the fragment of the address that says so, in the words of the app's links

function show() {
  hovered = null;
  $("picture").hidden = state.as === "text";
  $("text").hidden = $("side").hidden = state.as !== "text";
  $("moves").hidden = !touch.matches || state.as !== "map" || !state.cell;
  ({map, lines, text})[state.as]();
  for (const part of [original, legend, readout, words, numbers, controls, outline]) part();
  live?.shown();
  const colors = state.colors === COLORS[0] ? undefined : state.colors, place = site().kind[0] + site().layer;
  const view = {layer: place, head: state.head, cell: state.cell?.join("."), pins: state.pin?.join(""), as: state.as, colors};
  const says = {...live?.says(), ...view};
  link = `#${new URLSearchParams(Object.entries(says).filter(([, value]) => value !== undefined))}`;
  try { history.replaceState(null, "", link); } catch { /* a frame without an address keeps none */ }
}

function go(change) {
  const moved = change.site !== undefined && change.site !== state.site;
  Object.assign(state, moved ? {cell: null, pin: null} : {}, change);
  const [Q, K] = site().shape, {cell, pin} = state;
  state.head = limit(0, state.head, site().heads.length - 1);
  if (cell && !(cell[0] < Q && cell[1] < K)) state.cell = null;
  if (pin && !(pin[1] < (pin[0] === "q" ? Q : K))) state.pin = null;
  if (site().levels && drawn.mosaic) show();
}

function linked() {
  const asked = new URLSearchParams(location.hash.slice(1)), found = (name, form) => asked.get(name)?.match(form);
  const change = {cell: null, pin: null}, cell = found("cell", /^(\d{1,6})\.(\d{1,6})$/), pin = found("pins", /^([qk])(\d{1,6})$/);
  const s = data.sites.findIndex(one => one.kind[0] + one.layer === asked.get("layer"));
  if (s >= 0) change.site = s;
  const head = found("head", /^\d{1,3}$/);
  if (head) change.head = +head[0];
  if (Object.hasOwn(VIEWS, asked.get("as"))) change.as = asked.get("as");
  if (COLORS.includes(asked.get("colors"))) change.colors = asked.get("colors");
  if (cell) change.cell = [+cell[1], +cell[2]];
  if (pin) change.pin = [pin[1], +pin[2]];
  return change;
}

function controls() {
  const options = (select, names, value) => {
    if ([...select.options].some((option, i) => option.text !== names[i]) || select.length !== names.length)
      select.replaceChildren(...names.map((name, i) => make("option", name, {value: i})));
    select.value = value;
  };
  options($("site"), data.sites.map(one => one.name), state.site);
  options($("head"), site().heads.map((head, h) => `${h}${head.off ? " (off)" : ""}`), state.head);
  options($("colors"), COLORS, COLORS.indexOf(state.colors));
  for (const [id, value] of [["as", state.as], ["side", shadedBy()[0]]])
    for (const input of $(id).querySelectorAll("input")) input.checked = input.value === value;
}

function radios(id, names, change) {
  for (const [value, name] of Object.entries(names)) {
    const input = make("input", "", {type: "radio", name: id, value});
    input.addEventListener("change", () => change(value));
    $(id).append(within("label", [input, name]));
  }
}

// Mouse, touch and keys

function under(event) {  // a cell [query, key]; of lines also a token ["q" or "k", position]
  const box = $("picture").getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, [Q, K] = site().shape;
  if (state.as === "map") {
    const {left, top, cell} = drawn.map, q = Math.floor((y - top) / cell), k = Math.floor((x - left) / cell);
    return q >= 0 && q < Q && k >= 0 && k < K ? [q, k] : null;
  }
  const {x: ends, y: at, cell, shown} = drawn.lines, i = Math.floor((y - 30) / cell);
  const side = x < ends.q ? "q" : x > ends.k ? "k" : "", share = (x - ends.q) / (ends.k - ends.q);
  if (side) return i >= 0 && i < (side === "q" ? Q : K) ? [side, i] : null;
  const far = ([q, k]) => Math.abs(at(q) + (at(k) - at(q)) * share - y);
  const near = shown.filter(line => far(line) < 7).sort((a, b) => far(a) - far(b) || b[2] - a[2])[0];
  return near ? near.slice(0, 2) : null;
}

function hover(event) {
  if (event.pointerType === "touch") return;
  const found = event.type === "pointerleave" ? null : under(event);
  if (String(found) === String(hovered)) return;
  hovered = found;
  (state.as === "map" ? marks : lines)();
  readout();
}

function click(event) {
  const found = under(event), name = isToken(found) ? "pin" : "cell";
  if (live?.click(found, event)) return;
  if (found) go({[name]: String(found) === String(state[name]) ? null : found});
}

const ARROWS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};

function move(by) {  // the chosen cell; if there is none, it begins at the strongest
  const [Q, K] = site().shape, [q, k] = state.cell ?? strongestCell() ?? [0, 0], [down, right] = state.cell ? by : [0, 0];
  go({cell: [limit(0, q + down, Q - 1), limit(0, k + right, K - 1)]});
}

function key(event) {
  if (live?.key(event)) return;
  const [down, right] = ARROWS[event.key] ?? [], place = event.target.id, [Q, K] = site().shape;
  if (event.key === "Escape") return go({cell: null, pin: null});
  if (down === undefined || event.target.matches("input, select") || event.altKey || event.ctrlKey || event.metaKey) return;
  if (place === "mosaic") {
    const order = drawn.mosaic.places.map((y, s) => [y, s]).sort((a, b) => a[0] - b[0]).map(([, s]) => s);
    const next = order[limit(0, order.indexOf(state.site) + down, order.length - 1)];
    go({site: data.sites[next].levels ? next : state.site, head: Math.max(0, state.head + right)});
  } else if (place === "picture" && Q * K) move([down, right]);
  else if (event.target.closest("#text")) {
    const [side, i] = shadedBy();
    go({pin: [side, limit(0, i + down + right, tokens(side).length - 1)]});
    $("text").querySelector("[tabindex='0']").focus();
  } else return;
  event.preventDefault();
}

function headUnder({offsetX, offsetY}) {
  const {places, step} = drawn.mosaic, head = Math.floor((offsetX - LEFT) / step);
  const s = places.findIndex(y => offsetY >= y && offsetY < y + step);
  return data.sites[s]?.levels && data.sites[s].heads[head] ? {site: s, head} : null;
}

function listen() {
  let wide = innerWidth;
  $("mosaic").addEventListener("click", event => headUnder(event) && go(headUnder(event)));
  $("moves").addEventListener("click", event => ARROWS[event.target.dataset.key] && move(ARROWS[event.target.dataset.key]));
  $("text").addEventListener("click", event => {
    const {side, i} = event.target.closest("button")?.dataset ?? {};
    if (side) go({pin: [side, +i]});
  });
  $("picture").addEventListener("click", click);
  for (const kind of ["pointermove", "pointerleave"]) $("picture").addEventListener(kind, hover);
  document.addEventListener("keydown", key);
  $("site").addEventListener("change", event => go({site: +event.target.value}));
  $("head").addEventListener("change", event => go({head: +event.target.value}));
  $("colors").addEventListener("change", event => { state.colors = COLORS[event.target.value]; all(); });
  $("numbers").addEventListener("toggle", numbers);
  addEventListener("hashchange", () => {
    if (location.hash === link) return;
    const change = linked();
    live?.ask(live.read(location.hash));
    go(change);
  });
  addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; all(); } });
  for (const query of [dark, printed]) query.addEventListener("change", all);
}

function all() {
  choose();
  mosaic();
  show();
}

// What a live page draws with.
const page = {
  data, state, drawn, LEFT, make, within, table, percent, unpack, under, focus, called, nameOf, png,
  link: () => link,
  draw() {
    if (!drawn.mosaic) return;
    mosaic();
    go({});
  },
};

async function start() {
  $("about").textContent = data.about.join(" · ");
  $("changed").append(...(data.changed.length ? data.changed : ["Original model"]).map(text => make("li", text)));
  radios("as", VIEWS, as => go({as}));
  radios("side", {q: "From", k: "To"}, side => go({pin: [side, shadedBy()[1]]}));
  for (const [i, grid] of data.grids.entries()) data.grids[i] = await unpack(grid);
  await live?.start(page);
  go(linked());
  if (!site().levels) await read(state.site);
  all();
  listen();
  document.documentElement.dataset.opened = Math.round(performance.now());
  for (const [s, one] of data.sites.entries()) if (!one.levels) {
    await read(s);
    thumbnails(s);
    if (s === state.site) show();
    outline();
  }
  document.documentElement.dataset.painted = Math.round(performance.now());
}

start().catch(error => {
  $("failed").hidden = false;
  throw error;
});
