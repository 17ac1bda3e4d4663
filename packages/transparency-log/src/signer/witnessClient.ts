import { failureReason, readAtMost } from '@event-sourced/node/http';
import {
  type Checkpoint,
  decodeNumber,
  formatConsistencyProof,
  type ProveConsistency,
} from '@event-sourced/tlog';
import {
  type Cosignature,
  MAX_CLOCK_DIFFERENCE_MS,
  type PolicyWitness,
  verifyCosignatures,
} from '@event-sourced/tlog/witness';

const TIMEOUT_MS = 10_000;
const MAX_RESPONSE_BYTES = 64 * 1024;
/** Another instance may send requests to the witness at the same time. */
const MAX_ATTEMPTS = 3;

const REASONS: Record<number, string> = {
  403: 'it does not know this log, or has a different key for it',
  404: 'it does not know this log',
  409: 'another instance sends requests at the same time',
  422: 'the log contradicts what it has cosigned',
};

/** Requests cosignatures from a witness: `add-checkpoint` of https://c2sp.org/tlog-witness */
export class WitnessClient {
  readonly #witness: PolicyWitness;
  /** The last size that the witness is known to have cosigned. */
  #size = 0;

  constructor(witness: PolicyWitness) {
    this.#witness = witness;
  }

  /** The witness's cosignature of a checkpoint. @throws Error with the reason why there is none */
  async cosign(
    { size, note }: Checkpoint,
    prove: ProveConsistency,
    signal: AbortSignal,
  ): Promise<Cosignature> {
    let from = this.#size <= size ? this.#size : 0; // a larger size may have been an error: with 0 the witness reports it
    for (let attempts = 1; ; attempts++) {
      const path = await prove(from, size);
      if (!path) throw new Error('the tree is being rebuilt');
      const body = formatConsistencyProof({ from, path, checkpoint: note });
      const { status, text } = await this.#post(body, signal);
      if (status === 409 && attempts < MAX_ATTEMPTS) {
        from = this.#size = decodeNumber(text.replace(/\n$/, ''), 'the size in its response');
        if (from > size) throw new Error(`it has cosigned ${from} entries already`);
        continue;
      }
      if (status !== 200) throw new Error(`${REASONS[status] ?? 'it refuses'} (${status})`);
      const [cosignature] = verifyCosignatures(`${note}${text}`, [this.#witness.key]);
      if (!cosignature) throw new Error('its response does not have its cosignature');
      this.#size = size;
      if (Math.abs(cosignature.time * 1_000 - Date.now()) > MAX_CLOCK_DIFFERENCE_MS)
        throw new Error(
          'its clock or the clock of this log is wrong: the cosignature does not have the current time',
        );
      return cosignature;
    }
  }

  async #post(body: string, signal: AbortSignal): Promise<{ status: number; text: string }> {
    try {
      const response = await fetch(`${this.#witness.url}/add-checkpoint`, {
        method: 'POST',
        body,
        redirect: 'error',
        signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
      });
      const bytes = await readAtMost(MAX_RESPONSE_BYTES, response.body);
      if (!bytes) throw new Error('its response is too large');
      return { status: response.status, text: bytes.toString() };
    } catch (error) {
      throw new Error(`it is unavailable: ${failureReason(error)}`, { cause: error });
    }
  }
}
