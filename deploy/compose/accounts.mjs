// Creates the account of the service, and lets it alone append: docs/deploying.md#compose. Running it again sets the password.
import { EventStoreDBClient, jsonEvent, NO_STREAM, WrongExpectedVersionError } from '@eventstore/db-client';

const USER = 'plant-store';
const UNLESS_SET = { expectedRevision: NO_STREAM };
const {
  EVENTSTORE_ADMIN_PASSWORD: adminPassword,
  EVENTSTOREDB_PASSWORD: password,
  NODES: nodes = '',
} = process.env;
const admin = `admin:${adminPassword}`;

if (!(await post('', { loginName: USER, fullName: 'Plant store', groups: [], password })))
  await post(`${USER}/command/reset-password`, { newPassword: password });

const client = EventStoreDBClient.connectionString(`esdb://${admin}@${nodes}?tls=true&tlsCAFile=/ca/ca.crt`);
const acl = { $r: USER, $w: USER, $d: '$admins', $mr: USER, $mw: '$admins' };
await once(client.setStreamMetadata('$all', { acl: { readRoles: ['$admins', USER] } }, UNLESS_SET));
const settings = jsonEvent({ type: 'update-default-acl', data: { $userStreamAcl: acl } });
await once(client.appendToStream('$settings', settings, UNLESS_SET));
await client.dispose();
console.log(`The account ${USER} may read all events, and append; others may not append.`);

/** Ignores that the stream exists: an administrator may have changed it since. */
async function once(append) {
  await append.catch((error) => {
    if (!(error instanceof WrongExpectedVersionError)) throw error;
  });
}

/** POSTs to the users. Returns whether there was no such user yet. */
async function post(path, body) {
  const response = await fetch(`https://${nodes.split(',')[0]}/users/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Basic ${btoa(admin)}` },
    body: JSON.stringify(body),
  });
  if (!response.ok && response.status !== 409) throw new Error(`/users/${path}: ${response.status}`);
  return response.ok;
}
