// Unpacks what Recording.to_json wrote into a recording for the player; lays out memories, and names elements.

const LANES = 32;
const SECTOR = 32; // bytes
const BANKS = 32; // of 4 bytes each

/** The text behind base64 of gzip. */
async function unzipped(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** Expand a list in which [first, stride, count] is `count` numbers at equal distances; with stride 0, equal items. */
function unpacked(items) {
  if (!items) return null;
  const all = [];
  for (const item of items) {
    if (!Array.isArray(item)) all.push(item);
    else for (let k = 0; k < item[2]; k++) all.push(item[1] ? item[0] + k * item[1] : item[0]);
  }
  return all;
}

/** A recording with expanded lists, as recording.py describes it, and the layout of each memory. */
function decoded(raw) {
  const memories = raw.memories.map((memory) => ({
    ...memory,
    values: unpacked(memory.values),
    first: memory.window ? memory.window[0] : 0,
    size: memory.shape.reduce((product, side) => product * side, 1),
  }));
  const steps = raw.steps.map((row) => {
    const step = {};
    raw.step_fields.forEach((name, column) => (step[name] = row[column] ?? null));
    step.kind = raw.kinds[step.kind];
    step.lanes = Array.from({ length: LANES }, (_, lane) => lane).filter((lane) => (step.lanes >>> lane) & 1);
    step.elements = unpacked(step.elements);
    step.values = unpacked(step.values);
    step.source_lanes = unpacked(step.source_lanes);
    step.width ??= 1;
    step.outside ??= [];
    step.barriers ??= [];
    step.variables = Object.entries(step.variables ?? {}).map(([name, values]) => [name, unpacked(values)]);
    return step;
  });
  const problems = raw.problems.map(inOrder);
  const tile = (each) => ({ ...each, cells: unpacked(each.cells) });
  const products = raw.products.map((product) => ({ ...product, tiles: product.tiles?.map(tile) }));
  const matrices = Object.fromEntries(Object.entries(raw.matrices).map(([name, each]) => [name, tile(each)]));
  return { ...raw, memories, steps, problems, products, matrices, operands: raw.operands.map(unpacked) };
}

/** A problem with its sides (step, thread and line) in playing order. */
function inOrder(problem) {
  const sides = problem.steps.map((step, k) => ({ step, thread: problem.threads[k], line: problem.lines[k] ?? problem.line }));
  sides.sort((a, b) => a.step - b.step);
  return { ...problem, sides, threads: sides.map((side) => side.thread ?? []), lines: sides.map((side) => side.line) };
}

/** What one step does to memory: calls each(lane, element, value, number) for every element that is inside. */
function forEachElement(step, each) {
  if (!step || step.memory === null || !step.elements) return;
  const ofLane = step.elements.length / step.lanes.length; // more than one only in a bulk copy
  step.elements.forEach((first, at) => {
    const lane = step.lanes[Math.floor(at / ofLane)];
    if (first === null || lane === undefined) return;
    for (let k = 0; k < step.width; k++) {
      const number = at * step.width + k;
      each(lane, first + k, step.values ? step.values[number] : undefined, number);
    }
  });
}

/** Whether the bulk copy engine does this. */
const isBulk = (step) => step.bytes !== null && step.memory !== null;
/** Whether no thread does anything: a bulk copy arrives. */
const isByEngine = (step) => step.kind === "copy" && step.values !== null && isBulk(step);
const writes = (step) => step.kind === "write" || step.kind === "atomic" || step.kind === "copy";
const sectorOf = (memory, element) => Math.floor((memory.offset + element * memory.itemsize) / SECTOR);
const wordOf = (memory, element) => Math.floor((memory.offset + element * memory.itemsize) / 4);

/** The rows and columns that show a memory: its last dimension across; a flat one in rows of `across`. */
function sides(memory, across) {
  const last = memory.shape.length > 1 ? memory.shape[memory.shape.length - 1] : Math.min(across, memory.size);
  return { columns: Math.max(1, last), rows: Math.ceil(memory.size / Math.max(1, last)) };
}

/** An element's name: tile[3][5]. */
function nameOf(memory, element) {
  if (memory.shape.length === 0) return memory.name;
  const indices = [];
  let rest = element;
  for (const side of memory.shape.slice(1).reverse()) {
    indices.unshift(rest % side);
    rest = Math.floor(rest / side);
  }
  return memory.name + [rest, ...indices].map((index) => `[${index}]`).join("");
}

/** A number in at most `most` characters, or in as many as a whole number needs that a float holds exactly. */
function short(value, most = 6) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number" || Number.isSafeInteger(value)) return String(value);
  for (let digits = most - 2; digits > 0; digits--) {
    const text = String(Number(value.toPrecision(digits)));
    if (text.replace("-", "").length <= most) return text;
  }
  return value.toExponential(0);
}

/** A thread of a block as the kernel sees it: (x,y,z). */
function threadIdx(recording, thread) {
  const [x, y] = recording.block;
  return `(${thread % x},${Math.floor(thread / x) % y},${Math.floor(thread / (x * y))})`;
}

/** Lanes as people write them: "lanes 0-7, 16". */
function lanesText(lanes) {
  const parts = [];
  for (let k = 0; k < lanes.length; k++) {
    const first = lanes[k];
    while (k + 1 < lanes.length && lanes[k + 1] === lanes[k] + 1) k++;
    parts.push(lanes[k] === first ? `${first}` : `${first}-${lanes[k]}`);
  }
  return `${lanes.length === 1 ? "lane" : "lanes"} ${parts.join(", ")}`;
}
