/** The engine reports a change to its stages within this time, in ms. It reports nothing while nothing changes. */
export const STATUS_INTERVAL_MS = 250;
