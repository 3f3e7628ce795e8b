// A run of the model as the record that explore.js draws: what attnviz/export/explore.py writes of a record of Python.

const KINDS = {e: "encoder", d: "decoder", c: "cross"};
const CROWDED = 40, FAINT = 0.3, MOST_LISTED = 5;  // charts/signs.py, analysis/predictions.py

function probabilities(run, place) {
  return softmax(run.logits.data.slice(place * run.logits.columns, (place + 1) * run.logits.columns));
}

function largest(values, count = MOST_LISTED) {
  const found = [];
  for (let i = 0; i < values.length; i++) {
    if (found.length === count && values[i] <= values[found.at(-1)]) continue;
    found.push(i);
    found.sort((a, b) => values[b] - values[a] || a - b);
    found.length = Math.min(found.length, count);
  }
  return found;
}

// The most probable words after a place as [word, probability, that before or null], in the order of the first.
function nextWords(run, before, place, names) {
  const readSame = before && run.read.slice(0, place + 1).every(({text}, i) => before.read[i]?.text === text);
  const now = probabilities(run, place), old = readSame ? probabilities(before, place) : null;
  const either = [...new Set([...largest(now), ...old ? largest(old) : []])].sort((a, b) => now[b] - now[a]);
  return either.map(id => [visible(names[id]), now[id], old ? old[id] : null, id]);
}

// Where the colors of a head end if they adapt, and the words for it; see `adapted` of charts/signs.py.
function adapted({data, rows, columns}, rules, keys) {
  const special = keys.every(token => token.special) ? [] : keys.map(token => token.special);
  const choice = Array.from({length: rows}, (_, q) => {
    let open = 0;
    for (let k = 0; k < columns; k++) open += !rules[q * columns + k];
    return open > 1;
  });
  const every = choice.every(Boolean);
  let words = 0, most = 0, all = 0;
  for (let q = 0, i = 0; q < rows; q++) for (let k = 0; k < columns; k++, i++) {
    if (rules[i]) continue;
    all = Math.max(all, data[i]);
    if (!every && !choice[q]) continue;
    most = Math.max(most, data[i]);
    if (!special[k]) words = Math.max(words, data[i]);
  }
  const crowded = Math.max(rows, columns) > CROWDED;
  if (!(words > 0 && words < (crowded ? 1 : FAINT)) || !crowded && most >= FAINT) return {};
  const where = all <= words ? "here" : most > words ? "between words" : "where several keys are left";
  return {ends: words, caption: `weight; colors end at ${+words.toPrecision(2)}, the largest ${where}`};
}

function siteOf(name, run, record) {
  const {heads, rules} = run.sites[name], [queries, keys] = record.tokensOf(name), [Q, K] = [queries.length, keys.length];
  const empty = queries.map((_, q) => q).filter(q => rules.subarray(q * K, (q + 1) * K).every(Boolean));
  const grid = rules.some(Boolean) ? record.add("grids", rules) : undefined;
  const facts = heads.map(({weights}, h) => ({
    largest: weights.data.reduce((most, weight) => Math.max(most, weight), 0), grid, empty: new Set(empty),
    ...adapted(weights, rules, keys), ...run.edits.off.has(`${name}.${h}`) ? {off: true} : {},
  }));
  const levels = new Uint16Array(heads.length * Q * K), top = Math.max(1, ...facts.map(head => head.largest));
  for (const [h, {weights}] of heads.entries()) levels.set(weights.data.map(w => Math.round(w / top * 65534)), h * Q * K);
  const kind = KINDS[name[0]], layer = +name.slice(1);
  return {
    name: `${kind} layer ${layer}`, kind, layer, shape: [Q, K], top, policy: "zero", reasons: record.reasons, heads: facts,
    queries: record.add("texts", queries), keys: record.add("texts", keys), predicts: kind !== "encoder" || !run.written, levels,
  };
}

// The record of a run, and what was predicted `before` a change.
function recordOf(run, before, {reads, writes, mask}) {
  const names = run.written ? writes.names : reads.names;
  const record = {
    texts: [], grids: [], sites: [],
    reasons: ["blocked by causal mask", `blocked by your mask, ${visible(mask, 60).replaceAll("␣", " ")}`],
    tokensOf: name => [name[0] === "e" ? run.sentence : run.read, name[0] === "d" ? run.read : run.sentence],
    add(list, value) {
      const index = this[list].findIndex(other => other.source === value);
      if (index >= 0) return index;
      const drawn = list === "grids" ? value : value.map(({text, special}) => [visible(text), special ? 1 : 0, 0]);
      return this[list].push(Object.assign(drawn, {source: value})) - 1;
    },
  };
  record.sites = Object.keys(run.sites).map(name => siteOf(name, run, record));
  const listed = place => ({token: visible(run.read[place].text), words: nextWords(run, before, place, names)});
  const predicted = {where: "after", what: "the next word", words: run.read.map((_, place) => listed(place))};
  if (run.written) predicted.written = [run, before].filter(Boolean).map(({text}) => visible(text, 2000).replaceAll("␣", " "));
  return {texts: record.texts, grids: record.grids, sites: record.sites, predicted};
}
