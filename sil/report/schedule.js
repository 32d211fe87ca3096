// Draws schedules: decodes what is packed (packing.py), and gives Vega the level that fits the window.
const schedules = JSON.parse(document.getElementById("schedule-data").textContent);
const { processors, span_s, tick_s, users, most_users, most_rectangles } = schedules;
const DAY_S = 86400, BINS_ACROSS = 400, PAUSE_MS = 60;

async function decompressed(id) {
  const text = document.getElementById(id).textContent;
  const { body } = await fetch("data:application/octet-stream;base64," + text);
  return new Response(body.pipeThrough(new DecompressionStream("gzip")));
}

async function unpacked(id, columns) {
  const bytes = new Uint8Array(await (await decompressed(id)).arrayBuffer()), found = {};
  let at = 0;
  for (const { name, n, width, base, first } of columns) {
    const numbers = found[name] = new Float64Array(n).fill(base);
    for (let unit = 1; unit < 256 ** width; unit *= 256, at += n)
      for (let i = 0; i < n; i++) numbers[i] += bytes[at + i] * unit;
    if (first !== null) {
      numbers[0] = first;
      for (let i = 1; i < n; i++) numbers[i] += numbers[i - 1];
    }
  }
  return found;
}

function summed(numbers) {
  const sums = new Float64Array(numbers.length + 1);
  for (let i = 0; i < numbers.length; i++) sums[i + 1] = sums[i] + numbers[i];
  return sums;
}

class Panel {
  // Data are decoded when they are first drawn.
  constructor(described, k) {
    Object.assign(this, described, { k, decoded: {} });
  }
  once(what, decode) {
    return this.decoded[what] ??= decode();
  }
  level(n) {
    return this.once(`level ${n}`, () => unpacked(`schedule-level-${this.k}-${n}`, this.levels[n].columns));
  }
  begun() {
    return this.once("begun", async () => summed((await this.level(this.levels.length - 1)).starts));
  }
  jobs() {
    return this.once("jobs", async () => {
      const jobs = await unpacked(`schedule-jobs-${this.k}`, this.columns), first = summed(jobs.rectangles);
      const held = summed(jobs.length), size = jobs.job.map((_, i) => held[first[i + 1]] - held[first[i]]);
      const estimate = jobs.estimate?.map(place => jobs.estimates[place])
        ?? jobs.spare.map((spare, i) => spare + jobs.run[i]);
      return { ...jobs, first, size, estimate, start: jobs.submit.map((submit, i) => submit + jobs.wait[i]) };
    });
  }
  reasons() {
    return this.once("reasons", async () => this.has_reasons
      ? (await decompressed(`schedule-reasons-${this.k}`)).json() : []);
  }

  // What Vega draws in a window of days and processors: runs, or else cells.
  async drawn(days, rows) {
    const share = days.map(day => Math.min(Math.max(day * DAY_S / span_s, 0), 1));
    if (this.levels.length) {
      const begun = await this.begun(), bins = begun.length - 1;
      const n = begun[Math.ceil(share[1] * bins)] - begun[Math.floor(share[0] * bins)];
      if (n * (rows[1] - rows[0]) / processors > most_rectangles) return this.cells(share);
    }
    return await this.runs(days, rows) ?? this.cells(share);
  }

  // A rectangle for each interval of processors; undefined if these are too many.
  async runs(days, rows) {
    const { job, user, start, run, wait, size, first, low, length } = await this.jobs();
    const [from, until] = days.map(day => day * DAY_S / tick_s), runs = [];
    for (let i = 0; i < job.length; i++) {
      if (start[i] >= until || start[i] + run[i] <= from) continue;
      for (let r = first[i]; r < first[i + 1]; r++)
        if (low[r] < rows[1] && low[r] + length[r] > rows[0])
          runs.push({
            panel: this.k, place: i, job: job[i], size: size[i], wait: wait[i] * tick_s,
            user: Math.min(user[i], most_users), low: low[r], high: low[r] + length[r],
            from: start[i] * tick_s / DAY_S, until: (start[i] + run[i]) * tick_s / DAY_S,
          });
      if (this.levels.length && runs.length > 2 * most_rectangles) return undefined;
    }
    return { runs, cells: [] };
  }

  // The coarsest level that has enough cells across the window, as one image.
  async cells([from, until]) {
    const enough = this.levels.findIndex(({ bins }) => bins * (until - from) >= BINS_ACROSS);
    const n = enough < 0 ? this.levels.length - 1 : enough, { bins } = this.levels[n];
    const level = await this.level(n), shown = level[colour()], height = level.busy.length / bins;
    const first = Math.floor(from * bins), width = Math.ceil(until * bins) - first;
    const values = new Float32Array(width * height);
    for (let band = 0; band < height; band++)
      for (let k = 0; k < width; k++) {
        const cell = band * bins + first + k;
        values[(height - 1 - band) * width + k] = (shown ? shown[cell] : 0) * 256 + level.busy[cell];
      }
    const [since, to] = [first, first + width].map(bin => bin / bins * span_s / DAY_S);
    return { runs: [], cells: [{ width, height, values, from: since, until: to, low: 0, high: processors }] };
  }

  async facts({ place, low, high }) {
    const jobs = await this.jobs(), of = name => jobs[name][place];
    const seconds = name => duration(of(name) * tick_s);
    return {
      Job: of("job"),
      User: users[of("user")],
      Processors: `${of("size").toLocaleString("en")}, here ${low} to ${high - 1}`,
      Submitted: moment(of("submit")),
      Started: moment(of("start")),
      Ended: moment(of("start") + of("run")),
      Waited: seconds("wait"),
      Ran: seconds("run"),
      Estimate: seconds("estimate"),
      "Why it waited": (await this.reasons())[place],
    };
  }
}

function duration(s) {
  if (s < 60) return `${+s.toFixed(3)} s`;
  const units = [["d", DAY_S], ["h", 3600], ["min", 60], ["s", 1]], k = units.findIndex(([, unit]) => s >= unit);
  const [[large, of_large], [small, of_small]] = units.slice(k, k + 2);
  return `${Math.floor(s / of_large)} ${large} ${Math.floor(s % of_large / of_small)} ${small}`;
}

function moment(ticks) {
  const s = ticks * tick_s, day = Math.floor(s / DAY_S);
  const time = new Date((s - day * DAY_S) * 1000).toISOString().slice(11, 19);
  return `day ${day.toLocaleString("en")}, ${time}`;
}

// Shows the facts of the run under the pointer.
function tooltip(panels) {
  const box = Object.assign(document.createElement("div"), { id: "schedule-facts" });
  document.body.append(box);
  let latest = 0;
  return async (_handler, event, _item, run) => {
    const mine = ++latest;
    if (!run) return void (box.style.visibility = "hidden");
    const facts = await panels[run.panel].facts(run);
    if (mine !== latest) return;
    box.replaceChildren(...Object.entries(facts).filter(([, value]) => value).map(([name, value]) => {
      const line = document.createElement("div");
      line.append(Object.assign(document.createElement("b"), { textContent: `${name}: ` }), value);
      return line;
    }));
    box.style.visibility = "visible";
    box.style.left = `${Math.min(event.clientX + 12, innerWidth - box.offsetWidth - 4)}px`;
    box.style.top = `${Math.min(event.clientY + 12, innerHeight - box.offsetHeight - 4)}px`;
  };
}

let colour;

// The window is also that which a reader draws in the charts over time.
async function drawSchedules(place, overTime) {
  const panels = schedules.panels.map((described, k) => new Panel(described, k));
  const spec = JSON.parse(document.getElementById("schedule-spec").textContent), room = place.clientWidth - 80;
  if (room < spec.width + 160) {  // beside the legend
    spec.width = Math.min(spec.width, room);
    Object.assign(spec.legends[0], { orient: "top", columns: 3 });
  }
  const { view } = await vegaEmbed(place, spec,
    { mode: "vega", renderer: "canvas", actions: false, tooltip: tooltip(panels) });
  colour = () => view.signal("colour");
  let pause, latest = 0;
  async function update() {
    const mine = ++latest, window = [view.signal("days"), view.signal("rows")];
    const drawn = await Promise.all(panels.map(panel => panel.drawn(...window)));
    if (mine !== latest) return;
    drawn.forEach(({ runs, cells }, k) => view.data(`runs-${k}`, runs).data(`cells-${k}`, cells));
    await view.runAsync();
    place.dataset.drawn = drawn.map(({ runs, cells }) => cells.length ? "cells" : `${runs.length} runs`).join(", ");
  }
  for (const signal of ["days", "rows", "colour"])
    view.addSignalListener(signal, () => {
      clearTimeout(pause);
      place.dataset.drawn = "";
      pause = setTimeout(update, PAUSE_MS);
    });
  await update();
  (await overTime)?.view.addSignalListener("window", (_name, { day }) => {
    const all = span_s / DAY_S, [from, until] = day ?? [0, all];
    view.signal("days", [Math.max(from, 0), Math.min(until, all)]).runAsync();
  });
}
