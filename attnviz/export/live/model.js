// A Transformer of attnviz/models/transformer.py in the browser, in float64: only the float16 of its file rounds.
//
// A matrix is {data: Float64Array, rows, columns}, row after row. A site is "e0", "d1" or "c1": its kind and its layer.

const matrix = (rows, columns, data = new Float64Array(rows * columns)) => ({rows, columns, data});

function float16(bits) {
  const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

function readSafetensors(buffer) {
  const view = new DataView(buffer), size = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
  const {__metadata__: {config}, ...tensors} = header, weights = {};
  for (const [name, {shape, data_offsets: [start]}] of Object.entries(tensors)) {
    const tensor = shape.length === 1 ? matrix(1, shape[0]) : matrix(...shape);
    for (let i = 0; i < tensor.data.length; i++) tensor.data[i] = float16(view.getUint16(8 + size + start + 2 * i, true));
    weights[name] = tensor;
  }
  return {config: JSON.parse(config), weights};
}

function erf(x) {  // a Taylor series near 0; beyond 2.5, where its terms cancel, the continued fraction of 1 - erf
  if (Math.abs(x) > 2.5) {
    let fraction = 0;
    for (let n = 60; n > 0; n--) fraction = n / 2 / (Math.abs(x) + fraction);
    return Math.sign(x) * (1 - Math.exp(-x * x) / Math.sqrt(Math.PI) / (Math.abs(x) + fraction));
  }
  let term = x, sum = x;
  for (let n = 1; Math.abs(term) > 1e-17; n++) {
    term *= -x * x / n;
    sum += term / (2 * n + 1);
  }
  return 2 / Math.sqrt(Math.PI) * sum;
}

const gelu = x => matrix(x.rows, x.columns, x.data.map(v => v * (1 + erf(v / Math.SQRT2)) / 2));
const add = (x, y) => matrix(x.rows, x.columns, x.data.map((v, i) => v + y.data[i]));

function softmax(values) {  // -Infinity everywhere gives zeros
  const top = values.reduce((most, v) => Math.max(most, v), -Infinity);
  if (top === -Infinity) return values.fill(0);
  const powers = values.map(v => Math.exp(v - top)), sum = powers.reduce((total, v) => total + v, 0);
  return powers.map(v => v / sum);
}

class Model {
  constructor(buffer) {
    Object.assign(this, readSafetensors(buffer));
    this.translates = this.config.written > 0;
  }

  parameters(name) {
    return [this.weights[`${name}.weight`], this.weights[`${name}.bias`]];
  }

  linear(x, name) {  // x Wᵀ + b
    const [weight, bias] = this.parameters(name), y = matrix(x.rows, weight.rows), n = x.columns;
    for (let r = 0; r < x.rows; r++) {
      const row = x.data.subarray(r * n, (r + 1) * n);
      for (let c = 0, w = 0; c < weight.rows; c++) {
        let sum = bias.data[c];
        for (let i = 0; i < n; i++, w++) sum += row[i] * weight.data[w];
        y.data[r * y.columns + c] = sum;
      }
    }
    return y;
  }

  norm(x, name) {
    const [weight, bias] = this.parameters(name), y = matrix(x.rows, x.columns), n = x.columns;
    for (let r = 0; r < x.rows; r++) {
      const row = x.data.subarray(r * n, (r + 1) * n), mean = row.reduce((sum, v) => sum + v) / n;
      const factor = 1 / Math.sqrt(row.reduce((sum, v) => sum + (v - mean) ** 2, 0) / n + 1e-5);
      for (let i = 0; i < n; i++) y.data[r * n + i] = (row[i] - mean) * factor * weight.data[i] + bias.data[i];
    }
    return y;
  }

  embed(ids, name) {
    const words = this.weights[`${name}.words.weight`], positions = this.weights[`${name}.positions.weight`];
    const x = matrix(ids.length, words.columns), n = words.columns;
    for (const [p, id] of ids.entries())
      for (let i = 0; i < n; i++) x.data[p * n + i] = words.data[id * n + i] + positions.data[p * n + i];
    return x;
  }

  // One attention call; `run.sites` keeps what it was computed from. `edits` are those of live.js.
  attend(x, memory, name, site, run) {
    const {edits} = run, query = this.linear(x, `${name}.w_q`), key = this.linear(memory, `${name}.w_k`);
    const value = this.linear(memory, `${name}.w_v`), n = query.columns, d = n / this.config.num_heads;
    const joined = matrix(x.rows, n), K = memory.rows, scale = edits.scaled ? 1 / Math.sqrt(d) : 1;
    const rules = maskOf(site[0], x.rows, K, edits), heads = [];
    for (let h = 0; h < this.config.num_heads; h++) {
      const weights = matrix(x.rows, K), products = matrix(x.rows, K);
      for (let i = 0; i < x.rows; i++) {
        const scores = new Float64Array(K);
        for (let j = 0; j < K; j++) {
          let product = 0;
          for (let c = h * d; c < (h + 1) * d; c++) product += query.data[i * n + c] * key.data[j * n + c];
          products.data[i * K + j] = product;
          scores[j] = rules[i * K + j] ? -Infinity : product * scale / edits.temperature;
        }
        weights.data.set(softmax(scores), i * K);
        if (edits.off.has(`${site}.${h}`)) continue;
        for (let j = 0; j < K; j++) {
          const weight = weights.data[i * K + j];
          for (let c = h * d; c < (h + 1) * d; c++) joined.data[i * n + c] += weight * value.data[j * n + c];
        }
      }
      heads.push({weights, products});
    }
    run.sites[site] = {heads, rules, d, scale};
    return this.linear(joined, `${name}.w_o`);
  }

  layers(x, stack, kind, run, memory) {
    for (let layer = 0; layer < this.config.num_layers; layer++) {
      const name = `${stack}.layers.${layer}`, y = this.norm(x, `${name}.norm`), first = `${name}.feed_forward`;
      x = add(x, this.attend(y, y, `${name}.attention`, `${kind}${layer}`, run));
      if (memory) x = add(x, this.attend(this.norm(x, `${name}.cross_norm`), memory, `${name}.cross`, `c${layer}`, run));
      if (!this.weights[`${first}.1.weight`]) continue;
      x = add(x, this.linear(gelu(this.linear(this.norm(x, `${first}.0`), `${first}.1`)), `${first}.3`));
    }
    return x;
  }

  // What the model makes of token ids: {sites, logits, written}, the logits those of the word after each token. A
  // translator writes, each time the most probable word, unless what it has `written` is given: ids from <sos> on.
  run(ids, edits, written = null) {
    const run = {edits, sites: {}, written, cut: false};
    const logits = x => {  // a translator cannot write padding or the beginning of a sentence
      const y = this.linear(this.norm(x, "norm"), "unembedding");
      if (this.translates) for (let r = 0; r < y.rows; r++) y.data.fill(-Infinity, r * y.columns + PAD, r * y.columns + SOS + 1);
      return y;
    };
    if (!this.translates) {
      run.logits = logits(this.layers(this.embed(ids, "embedding"), "stack", "d", run));
      return run;
    }
    const memory = this.norm(this.layers(this.embed(ids, "embedding"), "encoder", "e", run), "memory_norm");
    const decode = read => this.layers(this.embed(read, "written"), "decoder", "d", run, memory);
    run.written ??= this.write(decode, logits, run);
    run.logits = logits(decode(run.written));
    return run;
  }

  write(decode, logits, run) {
    const read = [SOS];
    while (read.length < this.config.longest) {
      const state = decode(read), [word] = largest(logits(matrix(1, state.columns, state.data.subarray(-state.columns))).data, 1);
      if (word === EOS) return read;
      read.push(word);
    }
    run.cut = true;
    return read;
  }
}

const BUILT_IN = 1, PERSON = 2;

// What blocks each cell of a site: 0 where it is open, BUILT_IN or else PERSON.
function maskOf(kind, Q, K, edits) {
  const causal = kind === "d" && edits.ownMask, asked = kind === "c" && !edits.maskCross ? null : edits.mask;
  return Uint8Array.from({length: Q * K}, (_, i) => {
    const q = Math.floor(i / K), k = i % K;
    return causal && k > q ? BUILT_IN : asked && !asked(q, k) ? PERSON : 0;
  });
}
