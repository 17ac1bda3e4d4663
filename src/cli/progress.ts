import type { Progress as Processed } from '@event-sourced/event-log/views';

type Done = Processed & { step: string };

/** The progress of a step; `rate` in events per second. */
type Report = Done & { percent: number; rate: number; secondsLeft: number };

const REPORT_INTERVAL_MS = 2_000;

/** Reports the progress of a long operation every two seconds. */
export class Progress {
  readonly #report: (report: Report) => void;
  /** The state when the step started; the rate is measured from here. */
  #before: Done | undefined;
  #startedAt = performance.now();
  #reportedAt = this.#startedAt;

  constructor(report: (report: Report) => void) {
    this.#report = report;
  }

  show(done: Done): void {
    const { step, events, position, end } = done;
    const now = performance.now();
    if (this.#before?.step !== step) {
      this.#before = done;
      this.#startedAt = now;
    }
    if (now - this.#reportedAt < REPORT_INTERVAL_MS) return;
    this.#reportedAt = now;
    const seconds = Math.max(now - this.#startedAt, 1) / 1_000;
    const rate = Math.round((events - this.#before.events) / seconds);
    const percent = Math.floor(end === 0n ? 100 : (100 * Number(position)) / Number(end));
    const positions = Math.max(Number(position - this.#before.position), 1);
    const secondsLeft = Math.ceil((Number(end - position) * seconds) / positions);
    this.#report({ ...done, percent, rate, secondsLeft });
  }
}

export function commandProgress(print: (line: string) => void): Progress {
  return new Progress(({ step, events, percent, rate, secondsLeft }) =>
    print(`${step}: ${events} events, ${percent} %, ${rate}/s, ${secondsLeft} s left`),
  );
}
