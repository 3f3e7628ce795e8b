// Words and masks from text, as attnviz/tokenizers/__init__.py and attnviz/core/masks/text.py read them.

const [PAD, SOS, EOS, UNK] = [0, 1, 2, 3];
const LETTER = String.raw`[[\p{L}\p{N}\p{M}\u200c\u200d]--\p{Script=Han}]`;
const JOINER = String.raw`(?:['’‐‑\-](?!\p{M})|(?<=\p{N})[.,](?=\p{N}))`;
const PART = String.raw`${LETTER}+(?:${JOINER}${LETTER}+)*|\p{Script=Han}\p{M}*|\p{White_Space}|[🇦-🇿]{1,2}[\p{M}\u200d]*`;

function words(text) {  // punctuation, symbols and whole emoji stand alone: one grapheme cluster each
  const parts = new RegExp(PART, "yv"), clusters = new Intl.Segmenter("en", {granularity: "grapheme"}), found = [];
  for (let i = 0; i < text.length;) {
    parts.lastIndex = i;
    const part = parts.exec(text)?.[0] ?? clusters.segment(text.slice(i))[Symbol.iterator]().next().value.segment;
    if (!/^[\p{White_Space}\x1c-\x1f]+$/u.test(part)) found.push(part);
    i += part.length;
  }
  return found;
}

class Vocabulary {
  constructor(names) {
    this.names = names;
    this.ids = new Map(names.map((name, id) => [name, id]));
  }

  idOf(word) {
    const lower = word.toLowerCase();
    return this.ids.get(word) ?? this.ids.get(lower) ?? this.ids.get(lower.replaceAll("’", "'"));
  }

  special(id) {
    return {text: this.names[id], id, special: id <= EOS};
  }

  tokens(text) {
    return words(text.replace(/\p{Surrogate}/gu, "\ufffd")).map(word => {
      const id = this.idOf(word);
      return id === undefined ? {text: `${word}(?)`, id: UNK, unknown: word} : {text: word, id};
    });
  }

  extended(text, id) {  // a text with one more word: punctuation stands at its word, and a word after an elision
    if (id <= EOS) return text;
    const apart = text && !/['’]$/.test(text) && !/^[.,!?]$/.test(this.names[id]);
    return `${text}${apart ? " " : ""}${this.names[id]}`;
  }
}

const MARKS = 4, LONGEST = 24;
const WHITE = {"\t": "⇥", "\n": "↵", "\r": "↵", "\x85": "↵", "\u2028": "↵", "\u2029": "↵"};

function visible(text, longest = LONGEST) {  // a text as it may be drawn: core/display.py
  const shown = [];
  let marks = 0;
  for (const character of text) {
    marks = /[\p{Mn}\p{Me}]/u.test(character) ? marks + 1 : 0;
    if (marks > MARKS) continue;
    if (marks && !shown.length) shown.push("◌");
    shown.push(visibleCharacter(character));
    if (shown.length > longest) return `${shown.slice(0, longest - 1).join("")}…`;
  }
  return shown.join("") || "∅";
}

function visibleCharacter(character) {
  const code = character.codePointAt(0);
  if (WHITE[character]) return WHITE[character];
  if (/\p{Zs}/u.test(character)) return "␣";
  if (/[\p{Cf}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/u.test(character)) return "·";
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "␡";
  return /[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]/u.test(character) ? "\ufffd" : character;
}

// Masks. RULES, the predicates of the rules and their numbers, is printed by attnviz/core/masks/writing.py.

const LARGEST = 100_000, DEEPEST = 32, WIDE = 2 ** 32;
const mod = (a, b) => ((a % b) + b) % b;

function numEnds(number, lengths) {
  let end = 0;
  return lengths.filter(length => (end += length) <= number).length;
}

class MaskError extends Error {}

class MaskParser {
  constructor(text) {
    Object.assign(this, {text, index: 0});
  }

  // The predicate of the whole text, (query, key) => whether it may attend; null of an empty text.
  mask() {
    if (!this.text.trim()) return null;
    const mask = this.joined("|", 0), rest = this.take(/\w+|\S/y);
    if (rest) this.refuse(`“${rest}” cannot stand here`, "Rules are joined by & and |.", this.index - rest.length);
    return mask;
  }

  joined(sign, depth) {  // & binds stronger than |
    const part = () => sign === "|" ? this.joined("&", depth) : this.operand(depth), parts = [part()];
    while (this.take(sign === "|" ? /\|/y : /&/y)) parts.push(part());
    return sign === "|" ? (q, k) => parts.some(part => part(q, k)) : (q, k) => parts.every(part => part(q, k));
  }

  operand(depth) {
    if (depth > DEEPEST) this.refuse(`the mask is nested more than ${DEEPEST} deep`);
    if (this.take(/~/y)) {
      const part = this.operand(depth + 1);
      return (q, k) => !part(q, k);
    }
    const start = this.start();
    if (this.take(/\(/y)) {
      const inner = this.joined("|", depth + 1);
      if (!this.take(/\)/y)) this.refuse(`the parenthesis that opens at character ${start + 1} is not closed`);
      return inner;
    }
    const name = this.take(/[A-Za-z_]\w*/y);
    if (!name) this.refuse("a rule is missing; write one, such as causal or window(2)");
    if (!Object.hasOwn(RULES, name)) {
      const why = NOT_HERE.includes(name) ? `the rule “${name}” is in the app alone` : `there is no rule “${name}”`;
      this.refuse(why, `Available rules: ${Object.keys(RULES).sort().join(", ")}.`, start);
    }
    return this.rule(RULES[name], start);
  }

  rule({form, numbers, make}, start) {
    const values = {};
    if (this.take(/\(/y) && !this.take(/\)/y)) {
      do this.argument(form, numbers, values); while (this.take(/,(?!\s*\))/y));
      this.take(/,/y);
      if (!this.take(/\)/y)) this.refuse(`a comma or a parenthesis is missing; write ${form}`);
    }
    const missing = numbers.find(({name, required}) => required && !(name in values));
    if (missing) this.refuse(`“${missing.name}” is missing; write ${form}`, "", start);
    return make(...numbers.map(({name, fallback}) => values[name] ?? fallback));
  }

  argument(form, numbers, values) {  // the next number, by position or by name, or the next of a list
    const start = this.start(), name = this.take(/[A-Za-z_]\w*(?=\s*=)/y);
    const free = numbers.filter(number => number.kind !== "number" ? !values[number.name]?.closed : !(number.name in values));
    const number = free.find(one => !name || one.name === name);
    if (!number) this.refuse(`the rule does not take this; write ${form}`, "", start);
    if (name) this.take(/=/y);
    if (number.kind === "number") values[number.name] = this.number(number);
    else if (number.kind === "numbers" && this.take(/\[/y)) {
      const list = [];
      while (!this.take(/\]/y)) {
        list.push(this.number(number));
        this.take(/,/y);
      }
      values[number.name] = Object.assign(list, {closed: true});
    } else (values[number.name] ??= []).push(...number.kind === "cells" ? this.cells() : [this.number(number)]);
  }

  number({name, least}) {
    const start = this.start(), digits = this.take(/-?\d+/y);
    if (digits && digits.length <= 7 && +digits >= least && +digits <= LARGEST) return +digits;
    const value = digits || this.take(/[^,()[\]]{1,20}/y);
    const bounds = `a whole number from ${least} to ${LARGEST.toLocaleString("en")}`;
    this.refuse(`“${name}” is ${value ? `“${value}”` : "missing"}; it must be ${bounds}`, "", start);
  }

  cells() {  // "3:0", or "4-6:0-2" for several
    const start = this.start(), box = /^(\d{1,5})(?:-(\d{1,5}))?:(\d{1,5})(?:-(\d{1,5}))?$/.exec(this.take(/[\d:-]+/y));
    if (!box) this.refuse("cells are written query:key, such as 3:0 or, for several, 4-6:0-2", "", start);
    const [top, bottom, left, right] = [box[1], box[2] ?? box[1], box[3], box[4] ?? box[3]].map(Number), found = [];
    if (bottom < top || right < left || (bottom - top + 1) * (right - left + 1) > LARGEST)
      this.refuse(`“${box[0]}” holds no cell, or there are more than ${LARGEST.toLocaleString("en")}`, "", start);
    for (let q = top; q <= bottom; q++) for (let k = left; k <= right; k++) found.push(q * WIDE + k);
    return found;
  }

  start() {
    return this.index + /^\s*/.exec(this.text.slice(this.index))[0].length;
  }

  take(pattern) {
    pattern.lastIndex = this.start();
    const [text = ""] = pattern.exec(this.text) ?? [];
    if (text) this.index = pattern.lastIndex;
    return text;
  }

  refuse(why, hint = "", place = this.start()) {
    const text = visible(this.text, 60).replaceAll("␣", " ");
    throw new MaskError(`Character ${place + 1} of the mask “${text}”: ${why}.${hint && ` ${hint}`}`);
  }
}

// Cells that a person paints stand at the end of a mask's text: "causal & blocked(3:0) | opened(0:3)".

function joinedByOr(text) {  // whether it falls apart where & stands beside it
  for (let flat = ""; flat !== text;) [flat, text] = [text, text.replace(/\([^()]*\)/g, "")];
  return text.includes("|");
}

function painted(text) {
  const cells = (rule, sign) => {
    const found = new RegExp(String.raw`^([^]*?)(?:^|\s*\${sign}\s*)${rule}\(([\d:,\s]*)\)\s*$`).exec(text);
    if (!found || sign === "&" && joinedByOr(found[1])) return new Set();
    text = found[1];
    return new Set(found[2].match(/\d+:\d+/g));
  };
  const opened = cells("opened", "|"), blocked = cells("blocked", "&");
  return {base: text.trim(), blocked, opened};
}

function withPainted({base, blocked, opened}) {
  const written = (rule, cells) => cells.size ? `${rule}(${[...cells].join(", ")})` : "", mask = written("blocked", blocked);
  const joined = mask && base ? `${joinedByOr(base) ? `(${base})` : base} & ${mask}` : base || mask;
  return [joined, written("opened", opened)].filter(Boolean).join(" | ");
}
