// The state after the first `position` steps of a recording, and how to move through them.

const FRAME = 256; // steps between key frames

class State {
  constructor(recording) {
    const perThread = (value) => recording.blocks.map((block) => new Array(block.threads).fill(value));
    this.held = recording.memories.map((memory) => memory.values.slice());
    this.waits = perThread(null); // the barrier at which a thread waits
    this.exited = perThread(false);
    this.lines = perThread(null); // where a thread was last
    this.variables = perThread(Object.freeze({}));
    this.flying = recording.memories.map(() => []); // by element: the thread whose copy to it has begun
    this.barriers = recording.barriers.map(() => []); // as Step.barriers has them; empty: not initialised
    this.touched = recording.memories.map(() => recording.blocks.map(() => null)); // by which step, last
  }

  copy() {
    const same = Object.create(State.prototype);
    for (const name of Object.keys(this)) same[name] = this[name].map((items) => items.slice());
    return same;
  }

  /** Do one step. A read that came without values gets those that memory holds. */
  apply(step, number, memories) {
    const first = step.warp * LANES;
    const { block } = step;
    if (step.memory !== null && step.elements) {
      const held = this.held[step.memory];
      const base = memories[step.memory].first;
      if (step.kind === "read" && !step.values) {
        step.values = new Array(step.elements.length * step.width).fill(null);
        forEachElement(step, (_, element, __, at) => (step.values[at] = held[element - base] ?? null));
      } else if (writes(step)) {
        forEachElement(step, (lane, element, value) => {
          if (element < base || element - base >= held.length) return;
          if (step.values) held[element - base] = value;
          if (step.kind === "copy") this.flying[step.memory][element - base] = step.values ? null : first + lane;
        });
      }
      this.touched[step.memory][block] = number;
    }
    this.barriers = this.barriers.map((state) => (state[6] ? nextPhase(state) : state));
    for (const [number, ...state] of step.barriers) this.barriers[number] = state;
    if (isByEngine(step)) return;
    step.lanes.forEach((lane, at) => {
      const thread = first + lane;
      this.lines[block][thread] = step.line;
      this.waits[block][thread] = step.kind === "barrier" ? step.barrier ?? `line ${step.line}` : null;
      if (step.kind === "exit") this.exited[block][thread] = true;
      if (!step.variables.length) return;
      const known = { ...this.variables[block][thread] };
      for (const [name, values] of step.variables) {
        if (values[at] === null) delete known[name];
        else known[name] = values[at];
      }
      this.variables[block][thread] = known;
    });
  }
}

class Player {
  constructor(recording) {
    this.recording = recording;
    this.frames = [];
    this.block = null; // the kept block to follow, null: all
    this.warp = null; // the warp to follow, null: all
    this.problem = null; // the selected problem
    this.differs = false; // whether a read got another value than memory holds if steps run in this order
    const state = new State(recording);
    recording.steps.forEach((step, number) => {
      if (number % FRAME === 0) this.frames.push(state.copy());
      if (!this.differs && step.kind === "read" && step.memory !== null && step.values) {
        const { first } = recording.memories[step.memory];
        forEachElement(step, (_, element, value) => (this.differs ||= ![value, "?"].includes(state.held[step.memory][element - first])));
      }
      state.apply(step, number, recording.memories);
    });
    this.end = recording.steps.length;
    this.position = 0;
    this.state = new State(recording);
  }

  /** The last step done, null at the start. */
  get step() {
    return this.position ? this.recording.steps[this.position - 1] : null;
  }

  /** The numbers of the problems that the last step done is a part of. */
  get problemsHere() {
    const { problems } = this.recording;
    return problems.flatMap((problem, number) => (problem.steps.includes(this.position - 1) ? [number] : []));
  }

  /** The block that is shown. */
  get shown() {
    return this.block ?? this.step?.block ?? 0;
  }

  go(position) {
    position = Math.max(0, Math.min(this.end, position));
    const frame = Math.min(Math.floor(position / FRAME), this.frames.length - 1);
    if (position < this.position || frame * FRAME > this.position) {
      this.state = frame < 0 ? new State(this.recording) : this.frames[frame].copy();
      this.position = Math.max(0, frame) * FRAME;
    }
    for (; this.position < position; this.position++) {
      this.state.apply(this.recording.steps[this.position], this.position, this.recording.memories);
    }
  }

  follows(step) {
    return (this.block === null || step.block === this.block) && (this.warp === null || step.warp === this.warp);
  }

  /** Positions after steps that concern a problem, in order. */
  get marked() {
    const steps = this.recording.problems.flatMap((problem) => problem.steps);
    return [...new Set(steps)].sort((a, b) => a - b).map((step) => step + 1);
  }

  /** Where a move leads: `by` is "access", "line", "barrier" or "problem", `direction` 1 or -1. */
  target(by, direction) {
    const { steps } = this.recording;
    if (by === "problem") {
      const ahead = this.marked.filter((position) => (position - this.position) * direction > 0);
      return ahead.length ? ahead[direction > 0 ? 0 : ahead.length - 1] : this.position;
    }
    const isBarrier = (step) => step.kind === "barrier" || step.kind === "passed" || step.barriers.length > 0;
    /** Whether a step is the first of its block to arrive at a barrier, or the first to pass it, or changes one in memory. */
    const begins = (position) => {
      const step = steps[position - 1];
      if (step.barriers.length) return true;
      let before = position - 1;
      while (before > 0 && !(steps[before - 1].block === step.block && this.follows(steps[before - 1]) && isBarrier(steps[before - 1]))) before--;
      return !before || steps[before - 1].kind !== step.kind || steps[before - 1].barrier !== step.barrier;
    };
    for (let at = this.position + direction; at >= 0 && at <= this.end; at += direction) {
      if (at === 0) return by === "barrier" ? this.position : 0;
      const step = steps[at - 1];
      if (!this.follows(step)) continue;
      if (by === "access") return at;
      if (by === "line" && step.line !== this.step?.line) return at;
      if (by === "barrier" && isBarrier(step) && begins(at)) return at;
    }
    return by === "barrier" || direction < 0 ? this.position : this.end;
  }

  move(by, direction) {
    const target = this.target(by, direction);
    const moved = target !== this.position;
    this.go(target);
    if (by === "problem" && this.problemsHere.length) this.problem = this.problemsHere[0];
    return moved;
  }
}

/** What one lane does in a step of each kind, and what several do. */
const VERBS = {
  read: ["reads", "read"],
  write: ["writes", "write"],
  atomic: ["updates atomically", "update atomically"],
  begins: ["begins to copy into", "begin to copy into"],
  copy: ["has its copy arrive in", "have their copies arrive in"],
};
const BULK_VERBS = {
  read: ["has a bulk copy read", "have bulk copies read"],
  begins: ["begins a bulk copy into", "begin bulk copies into"],
  copy: ["has its bulk copy arrive in", "have their bulk copies arrive in"],
};

/** What one lane, or several, do in a step that touches memory. */
const verb = (step, several = step.lanes.length > 1) => (isBulk(step) ? BULK_VERBS : VERBS)[step.kind === "copy" && !step.values ? "begins" : step.kind]?.[several ? 1 : 0] ?? "";

/** What the last step did, the same for eyes and for screen readers: a sentence, and the problem that it is a part of. */
function sentence(player) {
  const { recording, position } = player;
  if (!position) return "Before the first step: no thread has run yet.";
  const step = recording.steps[position - 1];
  const [one, lanes, problems] = [step.lanes.length === 1, lanesText(step.lanes), player.problemsHere];
  const does = {
    barrier: () => (one ? "waits at the barrier" : "wait at the barrier"),
    passed: () => (one ? "goes on: all have arrived at the barrier" : "go on: all have arrived at the barrier"),
    exit: () => (one ? "exits" : "exit"),
    line: () => (one ? "runs this line" : "run this line"),
    product: () => `${one ? "multiplies" : "multiply"} on the tensor cores: ${recording.products[step.product]?.name} ${recording.products[step.product]?.shape}`,
    shuffle: () => (one ? "takes a value from another lane" : "exchange values by a shuffle"),
  }[step.kind];
  const acts = phaseVerb(recording, step, one) ?? (does ? does() : `${verb(step)} ${touchedText(recording, step, !problems.length)}`);
  const what = acts + barriersOfStep(recording, step);
  const block = recording.blocks[step.block].index;
  const said = `Step ${count(position)} of ${count(recording.steps.length)}, block (${block}), warp ${step.warp}, line ${step.line}: ${lanes} ${what}.`;
  const shown = problems.includes(player.problem) ? player.problem : problems[0];
  if (shown === undefined) return said;
  const which = recording.problems.length > 1 ? ` ${shown + 1} of ${recording.problems.length}` : "";
  return `${said} Problem${which}: ${recording.problems[shown].text.split("\n")[0].replaceAll("`", "").replace(/\.?$/, ".")}`;
}

/** Which elements a step touches, and what that costs; `compared` with the least possible. */
function touchedText(recording, step, compared) {
  const memory = recording.memories[step.memory];
  if (!memory) return "memory";
  const inside = new Set();
  forEachElement(step, (_, element) => inside.add(element));
  const [least, most] = [Math.min(...inside), Math.max(...inside)];
  let text = memory.name;
  if (inside.size === 1) text = nameOf(memory, least);
  else if (inside.size) text = `${inside.size} elements, ${nameOf(memory, least)} to ${nameOf(memory, most)}`;
  if (step.outside.length) text += ` (${lanesText(step.outside.map(([lane]) => lane))} outside of it)`;
  const cost = costText(step, compared);
  return cost ? `${text}; ${cost}` : text;
}

/** What a request costs, `compared` with the least possible. */
function costText(step, compared) {
  const times = (n, one, many) => `${n} ${n === 1 ? one : many}`;
  const beside = (n, least) => (!compared || !least ? "" : n > least ? `, ${least} would do` : ", the fewest possible");
  if (step.sectors) return times(step.sectors, "sector", "sectors") + beside(step.sectors, step.least_sectors);
  if (!step.wavefronts) return "";
  return times(step.wavefronts, "pass", "passes") + beside(step.wavefronts, step.least_wavefronts);
}

const count = (number) => number.toLocaleString("en");
