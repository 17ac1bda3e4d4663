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
  let toldAt = begun;

  function begin({ step, events, position, end }: Progress): void {
    bar?.stop();
    [shown, begun] = [step, performance.now()];
    if (!onTerminal) return;
    // Nothing that a signal would have to undo: the process ends at once.
    bar = new SingleBar(
      {
        format: `${step} {bar} {percentage}% | {events} events | {rate}/s | {eta} s left`,
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
      const rate = Math.round((events * 1_000) / Math.max(now - begun, 1));
      bar?.setTotal(Number(end));
      bar?.update(Number(position), { events, rate });
      if (onTerminal || now - toldAt < TELL_EVERY) return;
      toldAt = now;
      const [done, left] = [Number(position) / Number(end), Number(end - position)];
      const seconds = Math.ceil((left * (now - begun)) / 1_000 / Math.max(Number(position), 1));
      say(`${step}: ${events} events, ${Math.floor(100 * done)} %, ${rate}/s, ${seconds} s left`);
    },
    [Symbol.dispose]: () => bar?.stop(),
  };
}
