/** An engine tells of any change to its stages within this long, in ms, and of nothing while nothing changes. */
export const STATUS_INTERVAL_MS = 250;
