import { constantMemory } from '../support/constantMemory.ts';

// A million plants, and the commands, are in test/heavy. Fewer with long names are as large, and take a tenth of the
// time.
await constantMemory({
  plants: 7_000,
  species: 'a fern with a name of eight thousand characters'.padEnd(8_100, '-'),
  room: 44, // about half of it is garbage that V8 has not collected yet, more on a busy machine
});
