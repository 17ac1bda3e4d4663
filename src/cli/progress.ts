import { Presets, SingleBar } from 'cli-progress';

/** The number of processed events, the position of the last one, and the end of the log. */
type Done = { step: string; events: number; position: bigint; end: bigint };

/** The progress of a step; `rate` in events per second. */
type Report = Done & { percent: number; rate: number; secondsLeft: number };

type Options = { onTerminal: boolean; report: (report: Report) => void };

const REPORT_INTERVAL_MS = 2_000;

const BAR = {
  format: '{step} {bar} {percentage}% | {events} events | {rate}/s | {eta} s left',
  barsize: 20, // the line fits into 80 columns
  gracefulExit: false, // signals are handled elsewhere, and the terminal needs no reset
  linewrap: true,
};

/** Shows the progress of a long operation: a bar for each step on a terminal, otherwise a line every two seconds. */
export class Progress implements Disposable {
  readonly #options: Options;
  #bar: SingleBar | undefined;
  /** The state when the step started; the rate is measured from here. */
  #before: Done | undefined;
  #startedAt = performance.now();
  #reportedAt = this.#startedAt;

  constructor(options: Options) {
    this.#options = options;
  }

  show(done: Done): void {
    const { step, events, position, end } = done;
    const before = this.#before?.step === step ? this.#before : this.#start(done);
    const now = performance.now();
    const seconds = Math.max(now - this.#startedAt, 1) / 1_000;
    const rate = Math.round((events - before.events) / seconds);
    this.#bar?.setTotal(Number(end));
    this.#bar?.update(Number(position), { step, events, rate });
    if (this.#bar || now - this.#reportedAt < REPORT_INTERVAL_MS) return;
    this.#reportedAt = now;
    const percent = Math.floor(end === 0n ? 100 : (100 * Number(position)) / Number(end));
    const positions = Math.max(Number(position - before.position), 1);
    const secondsLeft = Math.ceil((Number(end - position) * seconds) / positions);
    this.#options.report({ ...done, percent, rate, secondsLeft });
  }

  [Symbol.dispose](): void {
    this.#bar?.stop();
    this.#bar = undefined;
    this.#before = undefined;
  }

  #start(done: Done): Done {
    this[Symbol.dispose]();
    this.#before = done;
    this.#startedAt = performance.now();
    if (!this.#options.onTerminal) return done;
    this.#bar = new SingleBar(BAR, Presets.shades_classic);
    this.#bar.start(Number(done.end), Number(done.position), { ...done, rate: '…' });
    return done;
  }
}

export function commandProgress(print: (line: string) => void, onTerminal: boolean): Progress {
  return new Progress({
    onTerminal,
    report: ({ step, events, percent, rate, secondsLeft }) =>
      print(`${step}: ${events} events, ${percent} %, ${rate}/s, ${secondsLeft} s left`),
  });
}
