import { Presets, SingleBar } from 'cli-progress';

/** Events that are done, the position of the last of them, and that of the last there is. */
export type Progress = { step: string; events: number; position: bigint; end: bigint };

const TELL_EVERY = 2_000;

/** Shows how a command gets on, a bar for each step on a terminal, else a line every two seconds. */
export function showProgress(
  say: (line: string) => void,
  onTerminal: boolean,
): Disposable & { show(progress: Progress): void } {
  let bar: SingleBar | undefined;
  let shown: string | undefined;
  let begun = performance.now();
  /** What had been done when a step began: it says nothing of its speed. */
  let before = { events: 0, position: 0n };
  let toldAt = begun;

  function begin({ step, events, position, end }: Progress): void {
    bar?.stop();
    [shown, begun, before] = [step, performance.now(), { events, position }];
    if (!onTerminal) return;
    // Nothing that a signal would have to undo: the process ends at once.
    bar = new SingleBar(
      {
        format: `${step} {bar} {percentage}% | {events} events | {rate}/s | {eta} s left`,
        barsize: 20, // all of it is to fit into 80 columns
        gracefulExit: false,
        linewrap: true,
      },
      Presets.shades_classic,
    );
    bar.start(Number(end), Number(position), { events, rate: '…' });
  }

  return {
    show(progress) {
      const { step, events, position, end } = progress;
      if (step !== shown) begin(progress);
      const now = performance.now();
      const seconds = Math.max(now - begun, 1) / 1_000;
      const rate = Math.round((events - before.events) / seconds);
      bar?.setTotal(Number(end));
      bar?.update(Number(position), { events, rate });
      if (onTerminal || now - toldAt < TELL_EVERY) return;
      toldAt = now;
      const done = end === 0n ? 1 : Number(position) / Number(end);
      const left = (Number(end - position) * seconds) / Math.max(Number(position - before.position), 1);
      say(`${step}: ${events} events, ${Math.floor(100 * done)} %, ${rate}/s, ${Math.ceil(left)} s left`);
    },
    [Symbol.dispose]: () => bar?.stop(),
  };
}
