import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomUUID,
  type webcrypto,
} from 'node:crypto';
import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readFileSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { moveToNew } from './moveToNew.ts';

export type KeyPair = { privateKey: KeyObject; publicKey: KeyObject };

/** The key file cannot be used. The message is for the operator and does not quote the key. */
export class UnusableKey extends Error {
  override readonly name = 'UnusableKey';
}

/** How a key file wraps its JWK (RFC 8037). */
export type KeyFormat = {
  wrap(jwk: object): unknown;
  /** The JWK in the JSON of a file. @throws Error */
  unwrap(json: unknown): unknown;
};

/** The JWK alone. */
const PLAIN_JWK: KeyFormat = { wrap: (jwk) => jwk, unwrap: (json) => json };

/**
 * Reads an Ed25519 key pair from a file that only its owner can read. Creates the file if it does not exist, then `isNew`;
 * concurrent processes get the same key. @throws UnusableKey
 */
export function loadOrCreateKey(file: string, format = PLAIN_JWK): KeyPair & { isNew: boolean } {
  const isNew = !existsSync(file) && orUnusable(file, () => create(file, format));
  return { ...loadKey(file, format), isNew };
}

/** Reads a key pair from an existing file. @throws UnusableKey */
export function loadKey(file: string, format = PLAIN_JWK): KeyPair {
  return orUnusable(file, () => load(file, format));
}

function load(file: string, { unwrap }: KeyFormat): KeyPair {
  const stats = statSync(file);
  // Reading a FIFO would wait for its writer.
  if (!stats.isFile()) throw new Error('it is not a regular file');
  if (isOpenToOthers(stats)) throw new Error(`other users can read it; run: chmod 600 ${file}`);
  const jwk = unwrap(parseJson(readFileSync(file, 'utf8')));
  let privateKey: KeyObject;
  try {
    privateKey = createPrivateKey({ key: jwk as webcrypto.JsonWebKey, format: 'jwk' });
  } catch {
    throw new Error(NOT_A_KEY); // the cause could quote the key
  }
  if (privateKey.asymmetricKeyType !== 'ed25519') throw new Error('its key type is not Ed25519');
  return { privateKey, publicKey: createPublicKey(privateKey) };
}

const NOT_A_KEY = 'it is not a private key in JWK format';

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(NOT_A_KEY);
  }
}

/**
 * Creates the file atomically and durably: if the key were lost, its signatures would be invalid. Returns false if
 * another process has created it meanwhile.
 */
function create(file: string, { wrap }: KeyFormat): boolean {
  const { privateKey } = generateKeyPairSync('ed25519');
  const draft = `${file}.${randomUUID()}`;
  try {
    writeSecret(draft, `${JSON.stringify(wrap(privateKey.export({ format: 'jwk' })))}\n`);
    moveToNew(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Writes a new file that only its owner can read; writes nothing if others could read it. */
function writeSecret(file: string, text: string): void {
  const fd = openSync(file, 'wx', 0o600);
  try {
    // The modes of some mounts are fixed, whatever a file is created with.
    if (isOpenToOthers(fstatSync(fd)))
      throw new Error(
        'its file system does not keep modes, so other users could read the key; set KEY_FILE or LOG_KEY_FILE to a file elsewhere',
      );
    writeFileSync(fd, text, { flush: true });
  } finally {
    closeSync(fd);
  }
}

const isOpenToOthers = ({ mode }: Stats): boolean => (mode & 0o077) !== 0;

function orUnusable<T>(file: string, use: () => T): T {
  try {
    return use();
  } catch (error) {
    throw new UnusableKey(`cannot use the key file ${file}: ${(error as Error).message}`);
  }
}
