// Package promotion carries out promotions: it reads branches and records, asks package promote for a decision, stores the
// record and moves branches.
//
// Look makes one pass; Run repeats it until nothing more is due. A pass reads everything once, at its beginning. Every push is a
// compare-and-swap from what the pass read, and every action is idempotent, so that passes of several processes may run at the
// same time: one of them wins, the others return a *MovedError and decide again. The record is stored before the actions, so
// that an interrupted pass is continued by the next one.
//
// What Git does not hold comes from the roles in Adapters. A role that is missing, or that fails, makes its answer unknown, and
// an unknown status blocks the promotion. A record that cannot be read is an error of its environment, never an empty record.
package promotion
