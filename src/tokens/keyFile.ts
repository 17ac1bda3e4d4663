import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomUUID,
} from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { fsyncPath } from '../fsyncPath.ts';

export type KeyPair = { privateKey: KeyObject; publicKey: KeyObject };

/** The key file is there but cannot be used. The message is for an operator and holds nothing of the key. */
export class UnusableKey extends Error {
  override readonly name = 'UnusableKey';
}

/**
 * The service's own Ed25519 key pair, a JWK (RFC 8037) in a file that only its owner may read. Made where there is
 * none; of several processes that do so at once, all end with the same key.
 * @throws UnusableKey
 */
export function loadOrCreateKey(file: string): KeyPair {
  try {
    return load(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unusable(file, error);
  }
  try {
    create(file);
    return load(file);
  } catch (error) {
    throw unusable(file, error);
  }
}

function load(file: string): KeyPair {
  const { mode } = statSync(file);
  if ((mode & 0o077) !== 0) throw new Error(`others may read it; cure: chmod 600 ${file}`);
  let privateKey: KeyObject;
  try {
    privateKey = createPrivateKey({ key: JSON.parse(readFileSync(file, 'utf8')), format: 'jwk' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') throw error;
    throw new Error('it holds no private key in JWK form'); // the cause could quote the key
  }
  if (privateKey.asymmetricKeyType !== 'ed25519') throw new Error('its key is not of type Ed25519');
  return { privateKey, publicKey: createPublicKey(privateKey) };
}

/** Written whole under another name first: a file of this name is always complete, and never overwritten. */
function create(file: string): void {
  const { privateKey } = generateKeyPairSync('ed25519');
  const draft = `${file}.${randomUUID()}`;
  const fd = openSync(draft, 'wx', 0o600);
  try {
    writeSync(fd, `${JSON.stringify(privateKey.export({ format: 'jwk' }))}\n`);
    fsyncSync(fd);
    linkSync(draft, file);
    fsyncPath(dirname(file)); // the name must last, too, or every token is lost with it
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    closeSync(fd);
    unlinkSync(draft);
  }
}

function unusable(file: string, error: unknown): UnusableKey {
  return new UnusableKey(`the key file ${file} cannot be used: ${(error as Error).message}`);
}
