// What the packages need to know about plants.
export { VIEWS } from '../projections/views.ts';
export { isKnownType, plantEventProblem } from './plants/events.ts';
export { PLANT_STREAMS } from './plants/plantStreams.ts';
export { parsePlantStream, plantStream } from './plants/stream.ts';
export { isUser, USER_RULE } from './plants/user.ts';
