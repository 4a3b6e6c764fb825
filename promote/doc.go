// Package promote carries out promotions: it reads branches and records, asks package rollout for a decision, stores
// the record and moves branches.
//
// A pass goes through small types, in this order: snapshot reads branches, records and the trunk once; observer
// describes an environment for package rollout; commands turns what people ask for into events; evidence asks the forge
// and the checks; proposals renders and judges what is next; rollout.Decide decides; recorder stores the record; mover,
// requests and rollbacks carry out the actions, with the commits and pushes of pusher. A dry run ends with preview
// instead.
//
// Look makes one pass; Run repeats it until nothing more is due. Every push is a compare-and-swap from what the pass
// read, and every action is idempotent, so that passes of several processes may run at the same time: one of them wins,
// the others return a *MovedError and decide again. The record is stored before the actions, so that an interrupted
// pass is continued by the next one.
//
// What Git does not hold comes from the roles in Adapters. A role that is missing, or that fails, makes its answer
// unknown, and an unknown status blocks the promotion. A record that cannot be read is an error of its environment,
// never an empty record.
//
// The package is not API: it can change in every release.
package promote
