package rollout

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/internal/yamlmistake"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// DecodeRecord decodes a record strictly. Empty data is a new record: a caller must pass it only if the file does not
// exist.
func DecodeRecord(environment string, data []byte) (Record, error) {
	fail := func(err error) (Record, error) {
		return Record{}, fmt.Errorf("%s on branch %s: %w: correct the file on that branch, or rebuild it with `sluice repair state`", RecordPath(environment), StateBranch, err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return NewRecord(environment), nil
	}
	if err := manifest.Check(data, manifest.Budget{
		Bytes: maxRecord, Nodes: maxNodes, Expanded: maxRecord, Depth: 20,
		Aliases: 0,
	}); err != nil {
		return fail(err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var r Record
	if err := dec.Decode(&r); err != nil {
		m := yamlmistake.Explain(err, data, &r)[0]
		return fail(fmt.Errorf("line %d: %s", m.Line, m.Message))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fail(errors.New("the file has a second document"))
	}
	switch {
	case r.APIVersion != RecordVersion || r.Kind != RecordKind:
		return fail(fmt.Errorf("%q %q is not a %s of %s; a newer Sluice may have written it", r.APIVersion, r.Kind,
			RecordKind, RecordVersion))
	case r.Environment != environment:
		return fail(fmt.Errorf("it is the record of environment %q", r.Environment))
	}
	if err := r.validate(); err != nil {
		return fail(err)
	}
	for _, f := range r.Failed {
		r.Holds = append(r.Holds, Hold{
			Cause: CauseFailed, Whole: true, Source: f.Source, Reason: f.Reason,
			Since: f.At,
		})
	}
	for _, name := range r.Branches {
		if _, ok := r.Tips[name]; ok {
			continue
		}
		if r.Tips == nil {
			r.Tips = map[string]string{}
		}
		r.Tips[name] = ""
	}
	r.Failed, r.Resumed, r.Branches = nil, nil, nil
	return r.bounded(), nil
}

// validate refuses entries that no version writes, and that would block or mislead a decision.
func (r Record) validate() error {
	for name, w := range r.Before {
		if w == nil {
			return fmt.Errorf("before.%s is empty", name)
		}
		for workspace, h := range w.Workspaces {
			if h.Since.IsZero() {
				return fmt.Errorf("before.%s.workspaces.%s: since is missing", name, workspace)
			}
		}
	}
	for i, h := range r.Holds {
		if err := h.validate(); err != nil {
			return fmt.Errorf("holds[%d]: %w", i, err)
		}
	}
	if r.Sequence < 0 {
		return errors.New("sequence is negative")
	}
	if b := r.Rollback; b != nil && b.Tree == "" {
		return errors.New("rollback names no tree")
	}
	if q := r.Request; q != nil {
		if err := q.Source.Validate(); err != nil {
			return fmt.Errorf("request: %w", err)
		}
	}
	return nil
}

// RecordSizeError means that a record is too large to be stored.
type RecordSizeError struct {
	Environment string
	Bytes       int
}

// Error names what makes the record large.
func (e *RecordSizeError) Error() string {
	return fmt.Sprintf("the record of %s would have %d bytes, and at most %d are stored: end holds with `sluice resume`, or roll back or promote the whole environment, so that fewer clusters and apps are exceptions",
		e.Environment, e.Bytes, maxRecord)
}

// Encode returns the record as YAML; equal records are equal bytes. From a record above recordBudget, it drops the
// oldest entries of the histories, in a fixed order and never the newest ones, which decisions need. If the record is
// still too large, it returns a *RecordSizeError, because DecodeRecord would refuse it.
func (r Record) Encode() ([]byte, error) {
	r = r.clone().bounded()
	for {
		data, err := r.encode()
		if err != nil || len(data) <= recordBudget {
			return data, err
		}
		if r.shorten(len(data)) {
			continue
		}
		if len(data) > maxRecord {
			return nil, &RecordSizeError{r.Environment, len(data)}
		}
		return data, nil
	}
}

// shorten drops the oldest entries of one history of a record of the given size. It reports whether it could drop
// any.
func (r *Record) shorten(bytes int) bool {
	const (
		leastRan      = 3 // a rollback needs the state before the current one
		leastBefore   = 3 // an older state only lengthens a bake
		leastCommands = 10
	)
	keep := func(n, least int) int { return max(least, min(n-1, n*recordBudget/bytes)) }
	if n := len(r.Ran); n > leastRan {
		r.Ran = last(r.Ran, keep(n, leastRan))
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(r.Before)) {
		if w := r.Before[name]; len(w.Ran) > leastBefore {
			w.Ran = last(w.Ran, keep(len(w.Ran), leastBefore))
			return true
		}
	}
	if n := len(r.Commands); n > leastCommands {
		r.Commands = last(r.Commands, keep(n, leastCommands))
		return true
	}
	return false
}

func (r Record) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("record of %s: %w", r.Environment, err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("record of %s: %w", r.Environment, err)
	}
	return b.Bytes(), nil
}

// clone returns a copy that shares nothing that Apply changes.
func (r Record) clone() Record {
	r.Approvals, r.Freezes = slices.Clone(r.Approvals), slices.Clone(r.Freezes)
	r.Ran, r.Holds, r.Handled, r.Commands = slices.Clone(r.Ran), slices.Clone(r.Holds), slices.Clone(r.Handled),
		slices.Clone(r.Commands)
	if r.Progress != nil {
		p := *r.Progress
		p.Waves = slices.Clone(p.Waves)
		r.Progress = &p
	}
	r.Tips = maps.Clone(r.Tips)
	r.Before = maps.Clone(r.Before)
	for name, w := range r.Before {
		c := *w
		c.Ran, c.Workspaces = slices.Clone(c.Ran), maps.Clone(c.Workspaces)
		r.Before[name] = &c
	}
	return r
}

// bounded drops the oldest entries of lists that grow with time.
func (r Record) bounded() Record {
	r.Handled, r.Approvals = last(r.Handled, maxHandled), last(r.Approvals, maxApprovals)
	r.Ran, r.Holds, r.Commands = last(r.Ran, maxRan), last(r.Holds, maxHolds), last(r.Commands, maxCommands)
	for _, w := range r.Before {
		w.Ran = last(w.Ran, maxRan)
	}
	return r
}

func last[T any](s []T, most int) []T { return s[max(0, len(s)-most):] }
