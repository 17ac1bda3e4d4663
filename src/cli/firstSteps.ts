import { join } from 'node:path';
import { CHECKOUT, type Config } from '../config.ts';

// What a start prints for people, to paste into a shell in any directory. The service prints no token.

const COMMAND = join(CHECKOUT, 'bin/plant-store');
/** Set by the image: there the command is in the PATH, and all processes have the same settings. */
const { IMAGE_COMMAND } = process.env;

export function tokenHint(config: Config): string {
  return `to create a token: ${tokenCommand(config)} USER`;
}

/** A POST and a GET; nothing in the image, which has no curl. */
export function firstSteps(config: Config, url: string): string {
  if (IMAGE_COMMAND) return '';
  const base = url.replace('0.0.0.0', '127.0.0.1').replace('[::]', '[::1]');
  const curl = `curl -s ${base}/plants -H "Authorization: Bearer $(${tokenCommand(config)} demo)"`;
  const plant = quote(JSON.stringify({ id: 1, name: 'Fern', tag: 'indoor' }));
  return `Create a plant, and list your plants:
${curl} -H 'Content-Type: application/json' -d ${plant}
${curl}
`;
}

/** The command, after the token settings that differ from their defaults. */
function tokenCommand({ dataDir, keyFile, issuer, audience }: Config): string {
  if (IMAGE_COMMAND) return `${IMAGE_COMMAND} token`;
  const settings = {
    DATA_DIR: dataDir === join(CHECKOUT, 'data') ? undefined : dataDir,
    KEY_FILE: keyFile === `${dataDir}/key.json` ? undefined : keyFile,
    JWT_ISSUER: issuer,
    JWT_AUDIENCE: audience,
  };
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  return [...given.map(([name, value]) => `${name}=${quote(`${value}`)}`), quote(COMMAND), 'token'].join(' ');
}

const quote = (value: string): string =>
  /^[\w./:-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
