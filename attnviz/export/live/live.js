// A page that holds its model: a text to type, changes, a new record after each of them, and files to save.
// explore.js draws; it calls `start`, `ask`, `says`, `shown`, `click` and `key`, and gives `page`, its own functions and state.

const PLAIN = {text: "", off: [], mask: "", ownMask: true, maskCross: true, temperature: 1, scaled: true};
const SWITCHES = {own: "ownMask", cross: "maskCross", scaled: "scaled"};  // check boxes, and what they change
const HOTTEST = 100, LONGEST_TEXT = 20_000;
const $ = id => document.getElementById(id);

globalThis.live = {
  visible,
  asked: {...PLAIN},
  runs: {},  // `now`, and `before` where something is changed

  async start(page) {
    Object.assign(this, {page, facts: page.data.live});
    const bytes = await page.unpack($("model").textContent);
    $("model").remove();
    this.model = new Model(bytes.buffer);
    this.reads = new Vocabulary(this.facts.reads);
    this.writes = this.facts.writes ? new Vocabulary(this.facts.writes) : this.reads;
    PLAIN.text = this.facts.text;
    $("crossed").hidden = !this.model.translates;
    $("changed").hidden = true;
    this.ask(this.read(location.hash));
    this.listen();
  },

  // Texts and runs

  tokens(text) {
    const words = this.reads.tokens(text.slice(0, LONGEST_TEXT)), ends = this.model.translates;
    const room = this.model.config.longest - 1, kept = words.slice(0, room);
    const sentence = ends ? [...kept, this.reads.special(EOS)] : [this.reads.special(SOS), ...kept];
    const cut = words.length > room || text.length > LONGEST_TEXT;
    return {sentence, cut, unknown: [...new Set(kept.map(token => token.unknown).filter(Boolean))]};
  },

  edits(asked) {
    const {off, ownMask, maskCross, temperature, scaled} = asked;
    return {off: new Set(off), mask: new MaskParser(asked.mask).mask(), ownMask, maskCross, temperature, scaled};
  },

  run({sentence}, edits, written) {
    const run = this.model.run(sentence.map(token => token.id), edits, written);
    const read = run.written?.map((id, place) => place ? {text: this.writes.names[id], id} : this.writes.special(id));
    const text = run.written?.reduce((text, id) => this.writes.extended(text, id), "");
    return Object.assign(run, {sentence, read: read ?? sentence, text});
  },

  // Change what is asked, run the model and draw; what is not possible is one sentence, and the last record stays.
  ask(change) {
    const asked = {...this.asked, ...change};
    this.show(asked);
    try {
      const edits = this.edits(asked), cut = this.tokens(asked.text);
      if (!cut.unknown.length && cut.sentence.length === 1) throw new MaskError("There is no word to look at; type one.");
      if (asked.text !== this.original?.of) this.original = Object.assign(this.run(cut, this.edits(PLAIN)), {of: asked.text});
      const changed = Object.keys(PLAIN).some(name => name !== "text" && String(asked[name]) !== String(PLAIN[name]));
      const now = changed ? this.run(cut, edits) : this.original;
      Object.assign(this, {asked, cut, runs: {now, before: now === this.original ? null : this.original}});
    } catch (error) {
      if (!(error instanceof MaskError)) throw error;
      return this.say("wrong", error.message);
    }
    this.say("wrong", "");
    const {now, before} = this.runs, facts = {reads: this.reads, writes: this.writes, mask: asked.mask};
    Object.assign(this.page.data, recordOf(now, before, facts), {before: before && recordOf(before, null, facts)});
    this.page.draw();
  },

  // What stands in the controls and under the text

  show(asked) {
    const controls = {typed: "text", rule: "mask", temperature: "temperature"};
    for (const [id, name] of Object.entries(controls)) if ($(id) !== document.activeElement) $(id).value = asked[name];
    for (const [id, name] of Object.entries(SWITCHES)) $(id).checked = asked[name];
  },

  say(id, text) {
    $(id).textContent = text;
    $(id).hidden = !text;
  },

  // The predictions now and of the original model: next words, each of which can be written, or a translation.
  answers() {
    const {make, percent, within} = this.page, {now, before} = this.runs, {longest} = this.model.config;
    const runs = before ? [["Now", now], ["Original model", before]] : [[this.model.translates ? "Translation" : "Next word", now]];
    const write = (run, [word, share, , id]) => {
      const full = run.read.length >= longest, button = make("button", `${word} ${percent(share)}`, {type: "button", disabled: id <= UNK || full});
      if (id > UNK) button.title = "Write this word";
      button.addEventListener("click", () => this.ask({text: this.reads.extended(this.asked.text.trimEnd(), id)}));
      return button;
    };
    const answer = run => this.model.translates ? [make("strong", visible(run.text, 2000).replaceAll("␣", " ") || "(nothing)")]
      : nextWords(run, null, run.read.length - 1, this.reads.names).map(word => write(run, word));
    const cutOff = run => run.cut ? make("span", "cut: the model did not end it", {className: "quiet"}) : "";
    $("answers").replaceChildren(...runs.map(([name, run]) => within("p", [make("span", name, {className: "quiet"}), ...answer(run), cutOff(run)])));
    const {unknown, cut} = this.cut, notes = [], it = unknown.length === 1 ? "it" : "them";
    const listed = unknown.slice(0, 6).map(word => `“${visible(word)}”`).join(", ") + (unknown.length > 6 ? ", …" : "");
    if (unknown.length) notes.push(`The model does not know ${listed} and reads ${it} as <unk>.`);
    if (cut) notes.push(`The text is cut after ${longest - 1} words, the most that this model reads.`);
    this.say("notes", notes.join(" "));
  },

  // Called by explore.js after each drawing

  shown() {
    this.answers();
    this.eyes();
    this.arithmetic();
  },

  eyes() {
    const {drawn, data, make} = this.page, {places, side, step} = drawn.mosaic, focused = document.activeElement?.dataset?.head;
    const eyes = data.sites.flatMap((one, s) => one.heads.map((head, h) => {
      const name = `${one.kind[0]}${one.layer}.${h}`, eye = make("button", head.off ? "○ off" : "● on", {type: "button"});
      eye.setAttribute("aria-pressed", !head.off);
      eye.setAttribute("aria-label", `Head ${h} of ${one.name}`);
      Object.assign(eye.dataset, {head: name});
      Object.assign(eye.style, {left: `${this.page.LEFT + h * step}px`, top: `${places[s] + side + 2}px`, width: `${side}px`});
      return eye;
    }));
    $("eyes").replaceChildren(...eyes);
    if (focused) $("eyes").querySelector(`[data-head="${focused}"]`)?.focus();
  },

  arithmetic() {  // the weight of the cell that words are about, from its numbers
    const {make, table, state, data, focus, called} = this.page, at = focus();
    $("arithmetic").hidden = !at;
    if (!at || !$("arithmetic").open) return;
    const one = data.sites[state.site], run = this.runs.now.sites[`${one.kind[0]}${one.layer}`], [q, k] = at, K = one.shape[1];
    const {weights, products} = run.heads[state.head], {temperature, scaled} = this.asked;
    const number = value => value.toFixed(4).replace("-", "−");
    const score = j => products.data[q * K + j] * run.scale / temperature, open = j => !run.rules[q * K + j];
    const top = Math.max(...Array.from({length: K}, (_, j) => open(j) ? score(j) : -Infinity));
    const power = j => open(j) ? Math.exp(score(j) - top) : 0, sum = Array.from({length: K}, (_, j) => power(j)).reduce((a, b) => a + b);
    const product = products.data[q * K + k], divided = temperature === 1 ? "" : ` ÷ ${temperature}`;
    const lines = [
      `q · k = ${number(product)}, the sum of ${run.d} products`,
      `score = ${number(product)}${scaled ? ` ÷ √${run.d}` : ""}${divided} = ${number(score(k))}`,
      open(k) ? `mask: ${called("q", q)} may attend to ${called("k", k)}` : `mask: ${one.reasons[run.rules[q * K + k] - 1]}, so the score becomes −∞`,
      open(k) ? `weight = e^(${number(score(k))} − ${number(top)}) ÷ ${number(sum)} = ${number(weights.data[q * K + k])}` : "weight = 0",
    ];
    const columns = ["key", "q · k", "score", "e^(score − largest)", "weight"];
    const rows = Array.from({length: K}, (_, j) => [
      called("k", j), number(products.data[q * K + j]), open(j) ? number(score(j)) : "−∞", number(power(j)), number(weights.data[q * K + j]),
    ]);
    $("arithmetic").lastElementChild.replaceChildren(
      this.page.within("ol", lines.map(text => make("li", text))), table(`All keys of ${called("q", q)}`, columns, rows));
  },

  // Painting

  // Block or open a cell while painting, or only open or only block; whether the click was for that. A mouse has painted
  // as it was pressed.
  click(cell, event, opens) {
    if ($("paint").ariaPressed !== "true" || !cell || this.page.state.as !== "map") return false;
    if (event?.type === "click" && event.pointerType !== "touch") return true;
    const {state, data} = this.page, one = data.sites[state.site], rules = this.runs.now.sites[`${one.kind[0]}${one.layer}`].rules;
    const [q, k] = cell, rule = rules[q * one.shape[1] + k], place = `${q}:${k}`, cells = painted(this.asked.mask);
    const isOpen = !rule;
    if (rule === BUILT_IN) this.say("wrong", `${this.page.called("q", q)} may not see the future: the built-in mask blocks this cell; switch it off first.`);
    if (rule === BUILT_IN || isOpen === (opens ?? !isOpen)) return true;
    for (const list of [cells.blocked, cells.opened]) list.delete(place);
    const stays = new MaskParser(withPainted(cells)).mask()?.(q, k) ?? true;
    if (stays === isOpen) cells[isOpen ? "blocked" : "opened"].add(place);
    state.cell = cell;
    this.painting = !isOpen;
    this.ask({mask: withPainted(cells)});
    return true;
  },

  key(event) {  // a space or Enter on the map paints the chosen cell
    if (event.target.id !== "picture" || ![" ", "Enter"].includes(event.key) || !this.page.state.cell) return false;
    if ($("paint").ariaPressed === "true") event.preventDefault();
    return this.click(this.page.state.cell);
  },

  // The address

  says() {
    const {text, off, mask, ownMask, maskCross, temperature, scaled} = this.asked;
    const scores = [scaled ? "" : "unscaled", temperature === 1 ? "" : `temperature-${temperature}`].filter(Boolean).join(".");
    return {
      text, mask: mask.trim() || undefined, heads_off: off.join("-") || undefined, own_mask: ownMask ? undefined : "off",
      mask_cross: maskCross ? undefined : "off", scores: scores || undefined,
    };
  },

  read(hash) {
    const asked = new URLSearchParams(hash.slice(1)), names = new Set();
    for (let layer = 0; layer < this.model.config.num_layers; layer++)
      for (const kind of this.model.translates ? "edc" : "d")
        for (let h = 0; h < this.model.config.num_heads; h++) names.add(`${kind}${layer}.${h}`);
    const scores = asked.get("scores") ?? "", hot = +(/temperature-(\d{1,3}(?:\.\d{1,3})?)$/.exec(scores)?.[1] ?? 1);
    return {
      text: asked.get("text") ?? this.facts.text, mask: asked.get("mask") ?? "",
      off: [...new Set(asked.get("heads_off")?.split("-"))].filter(name => names.has(name)),
      ownMask: asked.get("own_mask") !== "off", maskCross: asked.get("mask_cross") !== "off",
      temperature: hot > 0 && hot <= HOTTEST ? hot : 1, scaled: !scores.startsWith("unscaled"),
    };
  },

  // Files

  async save(kind) {
    const {state, data, nameOf} = this.page, one = data.sites[state.site], {heads} = this.runs.now.sites[`${one.kind[0]}${one.layer}`];
    const name = `${this.facts.name}-${nameOf(state.site, state.head)}`.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/-$/, "");
    const text = place => visible(place[0]).replace(/^[=+\-@\t\r]/, "'$&"), quoted = value => `"${value.replaceAll('"', '""')}"`;
    const rows = [...heads[state.head].weights.data].map((weight, i) => {
      const [q, k] = [Math.floor(i / one.shape[1]), i % one.shape[1]];
      return [q, quoted(text(data.texts[one.queries][q])), k, quoted(text(data.texts[one.keys][k])), weight].join(",");
    });
    const csv = () => new Blob([["query_position,query,key_position,key,weight", ...rows, ""].join("\r\n")], {type: "text/csv"});
    const href = URL.createObjectURL(kind === "png" ? await this.page.png() : csv());
    this.page.make("a", "", {download: `${name}.${kind}`, href}).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
  },

  async copy() {  // the address; from a file, which nobody else can open, only the part behind its #
    const hosted = location.protocol.startsWith("http"), text = hosted ? location.href : this.page.link();
    const done = hosted ? "The link is copied." : "The state is copied: paste it into the text box of another copy of this page.";
    await navigator.clipboard.writeText(text).then(() => this.say("notes", done), () => this.say("notes", text));
  },

  listen() {
    const typed = () => /^#\w+=/.test($("typed").value) ? this.ask(this.read($("typed").value)) : this.ask({text: $("typed").value});
    $("ask").addEventListener("submit", event => event.preventDefault());
    $("typed").addEventListener("input", typed);
    $("rule").addEventListener("input", () => this.ask({mask: $("rule").value}));
    $("temperature").addEventListener("input", ({target: {value, valueAsNumber: temperature}}) => {
      if (temperature > 0 && temperature <= HOTTEST) this.ask({temperature});
      else this.say("wrong", `The temperature is ${value || "empty"}; it must be a number above 0, up to ${HOTTEST}.`);
    });
    for (const [id, name] of Object.entries(SWITCHES))
      $(id).addEventListener("change", () => this.ask({[name]: $(id).checked}));
    $("reset").addEventListener("click", () => this.ask({...PLAIN, text: this.asked.text}));
    $("paint").addEventListener("click", () => { $("paint").ariaPressed = $("paint").ariaPressed !== "true"; });
    $("eyes").addEventListener("click", ({target: {dataset: {head}}}) => {
      const others = this.asked.off.filter(other => other !== head);
      if (head) this.ask({off: others.length < this.asked.off.length ? others : [...others, head]});
    });
    $("arithmetic").addEventListener("toggle", () => this.arithmetic());
    $("files").addEventListener("click", event => event.target.dataset.kind && this.save(event.target.dataset.kind));
    $("copy").addEventListener("click", () => this.copy());
    $("picture").addEventListener("pointerdown", event => event.pointerType === "touch" || this.click(this.page.under(event), event));
    $("picture").addEventListener("pointermove", event => {
      if (event.buttons === 1 && this.painting !== undefined) this.click(this.page.under(event), event, this.painting);
    });
    addEventListener("pointerup", () => { delete this.painting; });
  },
};
