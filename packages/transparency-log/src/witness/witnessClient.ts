import { readAtMost, reasonOf } from '../http/response.ts';
import type { ProveConsistency } from '../merkle/proofs.ts';
import type { Checkpoint } from '../notes/checkpoint.ts';
import { decodeNumber } from '../notes/encoding.ts';
import { formatConsistencyProof } from '../notes/proof.ts';
import { type Cosignature, cosignaturesOf } from './cosignature.ts';
import { MAX_CLOCK_DIFFERENCE_MS, type PolicyWitness } from './policy.ts';

const TIMEOUT_MS = 10_000;
const MAX_RESPONSE_BYTES = 64 * 1024;
/** Another instance may ask the witness at the same time. */
const MAX_ATTEMPTS = 3;

const REASONS: Record<number, string> = {
  403: 'it has another key for this log',
  404: 'it does not know this log',
  409: 'it is asked by others at the same time',
  422: 'the log contradicts what it has cosigned',
};

/** Asks a witness for cosignatures: `add-checkpoint` of https://c2sp.org/tlog-witness */
export class WitnessClient {
  readonly #witness: PolicyWitness;
  /** The size that the witness has cosigned last, as far as is known. */
  #size = 0;

  constructor(witness: PolicyWitness) {
    this.#witness = witness;
  }

  /** The witness's cosignature of a checkpoint. @throws Error that says why there is none */
  async cosign(
    { size, note }: Checkpoint,
    prove: ProveConsistency,
    signal: AbortSignal,
  ): Promise<Cosignature> {
    let from = this.#size <= size ? this.#size : 0; // a larger one may have been an error: it is asked again
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
      const [cosignature] = cosignaturesOf(`${note}${text}`, [this.#witness.key]);
      if (!cosignature) throw new Error('its response does not have its cosignature');
      this.#size = size;
      if (Math.abs(cosignature.time * 1_000 - Date.now()) > MAX_CLOCK_DIFFERENCE_MS)
        throw new Error('its clock, or that of this log, is wrong: its cosignature is not of now');
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
      throw new Error(`it is unavailable: ${reasonOf(error)}`, { cause: error });
    }
  }
}
