// The names of servers and loads in the results.

export const SERVICE = 'service';
export const WITHOUT_TREE = 'service without Merkle tree';
export const WITH_METRICS = 'service with metrics';
export const WITHOUT_METRICS = 'service without metrics';
export const BARE = 'bare Fastify';
export const CRUD = 'CRUD';
export const ON_EVENTSTOREDB = 'service on EventStoreDB';
export const CLIENT_ALONE = "appends by EventStoreDB's client alone";
export const ADAPTER_ALONE = 'appends by the adapter alone';

/** The main number of connections. */
export const MAIN_CONNECTIONS = 64;
/** The numbers of connections of the part connections. */
export const CONNECTIONS = [1, 8, MAIN_CONNECTIONS, 256, 1024];

export const postName = (server: string, connections = MAIN_CONNECTIONS): string =>
  `POST, ${connections} ${connections === 1 ? 'connection' : 'connections'}, ${server}`;
export const withFullLog = (service: string): string => `${service}, full log`;
export const getName = (server: string): string => `GET, ${server}`;
export const getOfOneName = (server: string): string => `GET of one user, ${server}`;
