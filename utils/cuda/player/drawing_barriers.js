// Draws barriers in memory: the phase under way, who has arrived, the bytes that are pending, and who waits.

/** A barrier's state as numbers by name. `over`: the phase has just ended, and the next one expects so many arrivals. */
function barrierState([phase, arrived, expected, announced, come, flying, over]) {
  return { phase, arrived, expected, announced, come, flying, over, pending: announced - come };
}

/** A barrier's state in the next step, if nothing happens to it. */
const nextPhase = ([phase, arrived, expected, announced, come, flying, over]) =>
  over ? [phase + 1, 0, over, 0, 0, flying, 0] : [phase, arrived, expected, announced, come, flying, over];

/** What a barrier holds, in words: "phase 2, 1 of 1 arrived, 512 of 512 bytes pending". */
function barrierText(state) {
  const { phase, arrived, expected, announced, come, pending, flying, over } = barrierState(state);
  if (!expected) return "not initialised";
  let text = `phase ${phase}${over ? " is over" : ""}, ${count(arrived)} of ${count(expected)} arrived`;
  if (announced || come) text += pending < 0 ? `, ${count(-pending)} bytes not announced` : `, ${count(pending)} of ${count(announced)} bytes pending`;
  return flying ? `${text}, ${count(flying)} in flight` : text;
}

/** A barrier's name; if it is in another block of the cluster, with that block. */
function barrierName(recording, step, number) {
  const { name, block } = recording.barriers[number];
  return block === step.block ? name : `${name} of block (${recording.blocks[block].index})`;
}

/** What a step does to barriers, behind what its lanes do. */
function barriersOfStep(recording, step) {
  if (step.kind === "passed") return "";
  return step.barriers.map(([number, ...state], k) =>
    step.barrier && k === 0 ? `: ${barrierText(state)}` : `; ${barrierName(recording, step, number)}: ${barrierText(state)}`).join("");
}

/** What lanes do at a barrier in memory; null for any other step. */
function phaseVerb(recording, step, one) {
  const name = step.barriers.length ? barrierName(recording, step, step.barriers[0][0]) : step.barrier;
  if (step.kind === "arrive") {
    const bytes = `${count(step.bytes ?? 0)} bytes`;
    const announces = `${one ? "announces" : "announce"} ${bytes}`;
    const says = {
      init: one ? "initialises" : "initialise", inval: one ? "invalidates" : "invalidate",
      expect_tx: `${announces} to`, complete_tx: `${one ? "counts" : "count"} ${bytes} as come at`,
    }[step.operation] ?? (one ? "arrives at" : "arrive at");
    return `${says} ${name}${step.bytes && !step.operation ? ` and ${announces}` : ""}`;
  }
  if (step.phase === null) return null;
  const phase = `${step.phase < 0 ? "the phase before the first" : `phase ${step.phase}`} of ${name}`;
  if (step.kind === "barrier") return `${one ? "waits" : "wait"} for the end of ${phase}`;
  return `${one ? "goes" : "go"} on: ${phase} ${step.phase < 0 ? "counts as over" : "is over"}`;
}

function barriersPanel(recording) {
  if (!recording.barriers.length) return { node: null, update() {} };
  const hasBytes = recording.steps.some((step) => step.barriers.some(([, , , , announced, come]) => announced || come));
  const heads = ["Barrier", "Phase", "Arrived", ...(hasBytes ? ["Bytes"] : []), "Waiting"];
  const bar = () => {
    const [done, flying, text] = [make("span", { class: "done" }), make("span", { class: "ahead" }), make("span", { class: "text" })];
    const node = make("span", { class: "bar" }, done, flying, text);
    node.show = (part, ahead, whole, words) => {
      const share = (n) => `width: ${whole > 0 ? Math.min(100, (100 * n) / whole).toFixed(1) : 0}%`;
      set(done, "style", share(part));
      set(flying, "style", share(ahead));
      set(node, "data-full", whole > 0 && part >= whole ? "yes" : null);
      write(text, words);
    };
    return node;
  };
  const rows = recording.barriers.map((barrier) => {
    const row = { phase: make("b"), parity: make("span", { class: "parity" }), over: make("span", { class: "over" }), arrived: bar(), bytes: bar() };
    const cell = (name, ...children) => make("td", { class: name, role: "cell" }, ...children);
    row.waiting = cell("waiting");
    row.node = make("tr", { "data-barrier": barrier.name, role: "row" },
      make("th", { scope: "row", role: "rowheader" }, make("code", {}, barrier.name)), cell("phase", row.phase, row.parity, row.over),
      cell("arrived", row.arrived), hasBytes ? cell("bytes", row.bytes) : null, row.waiting);
    return row;
  });
  const node = make("section", { class: "panel barriers" },
    make("div", { class: "head" }, make("h3", {}, "Barriers"), make("small", { class: "quiet" }, hasBytes ? "a phase ends when all have arrived and no bytes are pending" : "a phase ends when all have arrived")),
    make("table", { role: "table", "aria-label": "Barriers in memory" }, // roles, since a narrow player has no table's layout
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, heads.map((head) => make("th", { scope: "col", role: "columnheader" }, head)))),
      make("tbody", { role: "rowgroup" }, rows.map((row) => row.node))));

  function update({ step, state, block }) {
    const here = step && step.block === block ? step : null;
    let any = false;
    recording.barriers.forEach((barrier, number) => {
      const row = rows[number];
      row.node.hidden = barrier.block !== block || !state.barriers[number][2];
      if (row.node.hidden) return;
      any = true;
      const { phase, arrived, expected, announced, come, pending, flying, over } = barrierState(state.barriers[number]);
      const touched = (here?.barriers ?? []).some(([other]) => other === number);
      set(row.node, "data-now", touched ? (here.phase === null ? "changed" : "waits") : null);
      set(row.node, "data-over", over ? "yes" : null);
      write(row.phase, String(phase));
      write(row.parity, `parity ${phase % 2}`);
      set(row.parity, "data-parity", phase % 2);
      set(row.parity, "title", `a wait with parity ${phase % 2} lasts until phase ${phase} is over`);
      write(row.over, over ? "over ✓" : "");
      row.arrived.show(arrived, 0, expected, `${count(arrived)} of ${count(expected)}`);
      const words = pending < 0 ? `${count(-pending)} not announced` : announced ? `${count(pending)} of ${count(announced)} pending` : flying ? `${count(flying)} in flight` : "none";
      row.bytes.show(come, Math.min(flying, pending), announced, words);
      set(row.bytes, "title", `${count(announced)} bytes announced, ${count(come)} come, ${count(flying)} in flight`);
      write(row.waiting, waitingText(state.waits[block], barrier.name) || "–");
    });
    node.hidden = !any;
  }
  return { node, update };
}

/** The warps whose threads wait at a barrier. */
function waitingText(waits, name) {
  const lanes = new Map(); // by warp
  waits.forEach((at, thread) => {
    if (at === name) lanes.set(Math.floor(thread / LANES), [...(lanes.get(Math.floor(thread / LANES)) ?? []), thread % LANES]);
  });
  if (lanes.size > 2) return `${lanes.size} warps`;
  const all = (warp) => Math.min(LANES, waits.length - warp * LANES);
  return [...lanes].map(([warp, own]) => `warp ${warp}${own.length < all(warp) ? ` ${lanesText(own)}` : ""}`).join(", ");
}
