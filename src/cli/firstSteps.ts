import type { Config } from '../config.ts';

// What a start prints for people. They create tokens in their own shells: the service prints none.

export function tokenHint(config: Config): string {
  return `to create a token: ${shellSettings(config)}npx --no plant-store token USER`;
}

/** A POST and a GET, to paste into a shell in the project's folder. */
export function firstSteps(config: Config, url: string): string {
  const base = url.replace('0.0.0.0', '127.0.0.1').replace('[::]', '[::1]');
  const curl = `curl -s ${base}/plants -H "Authorization: Bearer $(${shellSettings(config)}npx --no plant-store token demo)"`;
  const plant = quote(JSON.stringify({ id: 1, name: 'Fern', tag: 'indoor' }));
  return `Create a plant, and list your plants:
${curl} -H 'Content-Type: application/json' -d ${plant}
${curl}
`;
}

/** The token settings that differ from their defaults, as a shell writes them before a command. */
function shellSettings({ dataDir, keyFile, issuer, audience }: Config): string {
  const settings = {
    DATA_DIR: dataDir === './data' ? undefined : dataDir,
    KEY_FILE: keyFile === `${dataDir}/key.json` ? undefined : keyFile,
    JWT_ISSUER: issuer,
    JWT_AUDIENCE: audience,
  };
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  return given.map(([name, value]) => `${name}=${quote(`${value}`)} `).join('');
}

const quote = (value: string): string => `'${value.replaceAll("'", `'\\''`)}'`;
