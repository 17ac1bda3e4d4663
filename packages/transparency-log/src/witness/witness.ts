import { hash, type KeyObject } from 'node:crypto';
import { join } from 'node:path';
import { verifyConsistency } from '../merkle/proofs.ts';
import { formatTreeHead } from '../merkle/treeHead.ts';
import { EMPTY_TREE, keyOrigin, parseCheckpointText } from '../notes/checkpoint.ts';
import { decodeUtf8 } from '../notes/encoding.ts';
import { NotVerified } from '../notes/notVerified.ts';
import { parseConsistencyProof } from '../notes/proof.ts';
import { formatSignature, openNote, signaturesBy, splitNote, type VerifierKey } from '../notes/signedNote.ts';
import { toVerifierKey } from '../sign/signCheckpoint.ts';
import { type CosignedCheckpoint, cosign } from './cosignature.ts';
import { CosignedCheckpointFile } from './cosignedCheckpointFile.ts';

/** `origin`: the known log. `size`: of its latest cosigned checkpoint. `evidence`: notes that may prove a fork. */
type Details = { origin?: string; size?: number; evidence?: readonly string[] };

/** A checkpoint is not cosigned. `status`: the HTTP status that tlog-witness requires. */
export class CheckpointRejected extends Error {
  override readonly name = 'CheckpointRejected';
  readonly status: 400 | 403 | 404 | 409 | 422;
  readonly details: Details;

  constructor(status: CheckpointRejected['status'], message: string, details: Details = {}) {
    super(message);
    this.status = status;
    this.details = details;
  }
}

type WitnessOptions = {
  name: string;
  key: KeyObject;
  /** The verifier keys of known logs. A log may have several keys. */
  logs: readonly VerifierKey[];
  /** A directory that only this witness uses. If its files were lost, the witness could cosign a different history. */
  stateDir: string;
  now: () => Date;
};

/** A witness (https://c2sp.org/tlog-witness): it cosigns a single history of each known log. */
export class Witness {
  readonly verifierKey: VerifierKey;
  readonly #signer: { name: string; key: KeyObject };
  readonly #now: () => Date;
  /** By log ID, the SHA-256 of the origin. */
  readonly #logs = new Map<string, { keys: VerifierKey[]; file: CosignedCheckpointFile }>();

  /** @throws Error if a log has the key of the witness */
  constructor({ name, key, logs, stateDir, now }: WitnessOptions) {
    this.verifierKey = toVerifierKey(name, key, 'cosignature');
    this.#signer = { name, key };
    this.#now = now;
    for (const logKey of logs) {
      const { publicKey } = logKey;
      const origin = keyOrigin(logKey);
      if (publicKey.equals(this.verifierKey.publicKey))
        throw new Error(`the witness and the log ${origin} must have different keys`);
      const id = toLogId(origin);
      const file = new CosignedCheckpointFile(join(stateDir, id), origin, this.verifierKey);
      const log = this.#logs.get(id) ?? { keys: [], file };
      log.keys.push(logKey);
      this.#logs.set(id, log);
    }
  }

  get logIds(): string[] {
    return [...this.#logs.keys()];
  }

  /** The latest cosigned checkpoint of a log; undefined if there is none. @throws WitnessStateUnusable */
  async checkpoint(logId: string): Promise<string | undefined> {
    return (await this.#logs.get(logId)?.file.read())?.note;
  }

  /**
   * Cosigns the checkpoint of an add-checkpoint request, makes it durable, and returns the signature line.
   * @throws CheckpointRejected, WitnessStateUnusable
   */
  async addCheckpoint(body: Uint8Array): Promise<string> {
    const { origin, note, ...request } = parseRequest(body);
    const log = this.#logs.get(toLogId(origin));
    if (!log) throw new CheckpointRejected(404, 'the log is unknown');
    try {
      const signed = await keepSignatures(log.keys, note);
      const cosigned = await log.file.update((latest) => {
        assertFollows({ ...request, note: signed }, latest);
        const seconds = Math.floor(this.#now().getTime() / 1_000);
        const time = Math.max(seconds, latest?.time ?? 1); // the clock may have been set back
        const cosignature = cosign(signed, this.#signer, time);
        const { size, root } = request;
        return { origin, size, root, time, note: signed + cosignature };
      });
      return cosigned.note.slice(signed.length);
    } catch (error) {
      if (error instanceof CheckpointRejected) error.details.origin = origin;
      throw error;
    }
  }
}

const toLogId = (origin: string): string => hash('sha256', origin);

type Request = ReturnType<typeof parseRequest>;

/** @throws CheckpointRejected */
function parseRequest(body: Uint8Array) {
  try {
    const { from, path, checkpoint: note } = parseConsistencyProof(decodeUtf8(body));
    return { from, path, note, ...parseCheckpointText(splitNote(note).text) };
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    throw new CheckpointRejected(400, error.message);
  }
}

/** Verifies the signatures of these keys, and returns the note without other signatures. @throws CheckpointRejected */
async function keepSignatures(keys: readonly VerifierKey[], note: string): Promise<string> {
  const { text, signatures } = splitNote(note);
  const lines: string[] = [];
  for (const key of keys) {
    const [own] = signaturesBy(signatures, key); // one is enough, and keeps the note small enough to read it again
    if (!own) continue;
    await openNote(note, key).catch(({ message }) => {
      throw new CheckpointRejected(403, message);
    });
    lines.push(formatSignature(key, own.signature));
  }
  if (lines.length === 0)
    throw new CheckpointRejected(403, 'there is no signature of a known key of the log');
  return `${text}\n${lines.join('')}`;
}

const NONE: CosignedCheckpoint = { ...EMPTY_TREE, origin: '', note: '', time: 0 };

/** @throws CheckpointRejected if the proof does not show that a checkpoint follows the latest one */
function assertFollows({ from, path, note, ...next }: Omit<Request, 'origin'>, latest = NONE): void {
  const isFork = next.size === latest.size && next.root !== latest.root;
  const reject = (status: CheckpointRejected['status'], why: string): never => {
    const message = isFork ? `the log has signed a different root of size ${next.size}` : why;
    const evidence = isFork ? [latest.note, note] : status === 422 ? [note] : [];
    throw new CheckpointRejected(status, message, { size: latest.size, evidence });
  };
  if (from > next.size) reject(400, `the old size ${from} is larger than the size ${next.size}`);
  if (from !== latest.size)
    reject(409, `the old size is ${from}, but the latest checkpoint has ${latest.size}`);
  if (isFork || !verifyConsistency(latest, next, path))
    reject(422, `the proof is invalid: from ${formatTreeHead(latest)} to ${formatTreeHead(next)}`);
}
