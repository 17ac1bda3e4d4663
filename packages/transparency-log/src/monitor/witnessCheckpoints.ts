import { decodeUtf8 } from '../notes/encoding.ts';
import { NotVerified } from '../notes/notVerified.ts';
import type { VerifierKey } from '../notes/signedNote.ts';
import { verifyCosignatures } from '../witness/cosignature.ts';
import type { Policy, PolicyWitness } from '../witness/policy.ts';
import { LogUnavailable } from './logClient.ts';
import { openReceived, type Received } from './received.ts';

export type WitnessOptions = {
  key: VerifierKey;
  policy?: Policy | undefined;
  /** Fetches the checkpoint of this log from a witness. @throws LogUnavailable */
  witnessCheckpoint?: (url: string) => Promise<Buffer>;
  now: () => Date;
  /** Called with notices that are not alarms, such as an unavailable witness. */
  onNotice: (line: string) => void;
};

/** The log's newest checkpoint from each witness with a URL: "Monitor Retrieval Mechanism" of tlog-witness. */
export async function witnessCheckpoints(options: WitnessOptions): Promise<Received[]> {
  const { policy, witnessCheckpoint, key, now, onNotice } = options;
  const received = async ({ key: witness, url }: PolicyWitness): Promise<Received | undefined> => {
    if (!url || !witnessCheckpoint) return undefined;
    try {
      const note = decodeUtf8(await witnessCheckpoint(url));
      if (verifyCosignatures(note, [witness]).length === 0)
        throw new NotVerified('its checkpoint does not have its cosignature');
      const receivedAt = now().toISOString();
      return await openReceived(
        { note, receivedAt, shownBy: `shown by ${witness.name}`, mayBeAhead: true },
        key,
      );
    } catch (error) {
      if (!(error instanceof LogUnavailable || error instanceof NotVerified)) throw error;
      onNotice(`the witness ${witness.name} is unavailable: ${error.message}`);
      return undefined;
    }
  };
  const all = await Promise.all((policy?.witnesses ?? []).map(received));
  return all.filter((one) => one !== undefined);
}
