import { constantMemory } from '../support/constantMemory.ts';

// A million plants, and the commands, are in test/heavy. Fewer with long names are almost as large, and take a tenth of the
// time.
constantMemory({
  plants: 20_000,
  species: 'a fern with a name of four thousand characters'.padEnd(4_050, '-'),
  room: 64,
  serverHeap: 48,
});
