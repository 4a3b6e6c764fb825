// Package manifest decodes and encodes Kubernetes objects and derives their identity, their scope and the name of
// their file on a branch.
//
// Decode reads YAML as Kubernetes does. Encode writes canonical YAML: equal objects give equal bytes. The encoder is
// not a library, because no library writes YAML that stays byte-identical over its releases and that readers of YAML
// 1.1 and 1.2 understand alike.
//
// All functions are pure and safe for concurrent use. The package imports nothing of Sluice except internal/safetext.
//
// The package is API: docs/architecture.md says how stable it is.
package manifest
