import { performance } from 'node:perf_hooks';

/** Counts the reads in each turn of the event loop. */
export class ReadsPerTurn {
  total = 0;
  /** The most reads in one turn. */
  most = 0;
  #turn = -1;
  #inTurn = 0;

  count(): void {
    const turn = performance.nodeTiming.uvMetricsInfo.loopCount;
    if (turn !== this.#turn) this.#inTurn = 0;
    this.#turn = turn;
    this.#inTurn++;
    this.total++;
    this.most = Math.max(this.most, this.#inTurn);
  }
}
