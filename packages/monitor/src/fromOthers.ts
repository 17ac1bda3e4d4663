import { printable } from '@event-sourced/node/cli';
import {
  decodeUtf8,
  isInclusionProof,
  MAX_PROOF_BYTES,
  NotVerified,
  proofCheckpoint,
  type VerifierKey,
} from '@event-sourced/tlog';
import { type PolicyWitness, verifyCosignatures } from '@event-sourced/tlog/witness';
import { readStateFile } from '@event-sourced/transparency-log/files';
import type { Check } from './check.ts';
import { NotChecked } from './notChecked.ts';
import { openReceived, type Received } from './received.ts';

/** Reads checkpoints from files with a checkpoint or a proof, such as a receipt. @throws Error that names the file */
export function readKnown(
  files: readonly string[],
  key: VerifierKey,
  receivedAt: string,
): Promise<Received[]> {
  return Promise.all(
    files.map(async (file) => {
      try {
        const text = await readStateFile(file, MAX_PROOF_BYTES, 'a checkpoint or a proof');
        const note = isInclusionProof(text) ? proofCheckpoint(text) : text;
        return await openReceived({ note, receivedAt, shownBy: `in ${file}` }, key);
      } catch (error) {
        const reason = printable((error as Error).message);
        throw new Error(`cannot use ${file} of --known: ${reason}`, { cause: error });
      }
    }),
  );
}

/** The log's newest checkpoint from each witness with a URL: "Monitor Retrieval Mechanism" of tlog-witness. */
export async function witnessCheckpoints(check: Check): Promise<Received[]> {
  const { policy, witnessCheckpoint, key, now, onNotice } = check;
  const received = async ({ key: witness, url }: PolicyWitness): Promise<Received | undefined> => {
    if (!url || !witnessCheckpoint) return undefined;
    try {
      const note = decodeUtf8(await witnessCheckpoint(url));
      if (verifyCosignatures(note, [witness]).length === 0)
        throw new NotVerified('its checkpoint does not have its cosignature');
      const source = { shownBy: `shown by ${witness.name}`, mayBeAhead: true };
      return await openReceived({ note, receivedAt: now().toISOString(), ...source }, key);
    } catch (error) {
      if (!(error instanceof NotChecked || error instanceof NotVerified)) throw error;
      const servesNone = error instanceof NotChecked && error.isMissing; // like litewitness
      if (!servesNone) onNotice(`the witness ${witness.name} is unavailable: ${error.message}`);
      return undefined;
    }
  };
  const all = await Promise.all((policy?.witnesses ?? []).map(received));
  return all.filter((one) => one !== undefined);
}
