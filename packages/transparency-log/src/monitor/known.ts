import { readStateFile } from '../files/stateFile.ts';
import { printable } from '../notes/printable.ts';
import { isInclusionProof, MAX_PROOF_BYTES, openInclusionProof } from '../notes/proof.ts';
import type { VerifierKey } from '../notes/signedNote.ts';
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
        const isProof = isInclusionProof(text);
        const note = isProof ? (await openInclusionProof(text, key)).checkpoint.note : text;
        return await openReceived({ note, receivedAt, shownBy: `in ${file}` }, key);
      } catch (error) {
        const reason = printable((error as Error).message);
        throw new Error(`cannot use ${file} of --known: ${reason}`, { cause: error });
      }
    }),
  );
}
