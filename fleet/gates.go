package fleet

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet/expression"
)

// GateSetFile is a file with gates that fleets take from another repository (spec.gates).
type GateSetFile struct {
	// APIVersion is sluice.dev/v1alpha1.
	APIVersion string `json:"apiVersion" jsonschema:"required,enum=sluice.dev/v1alpha1"`
	// Kind is GateSet.
	Kind string `json:"kind" jsonschema:"required,enum=GateSet"`
	// Metadata names the set.
	Metadata Metadata `json:"metadata" jsonschema:"required"`
	// Spec has the gates.
	Spec GateSetSpec `json:"spec" jsonschema:"required"`
}

// GateSetSpec are gates for environments of any fleet.
type GateSetSpec struct {
	// Gates are added to those that the fleet has.
	Gates []SharedGate `json:"gates" jsonschema:"required,minItems=1"`
}

// SharedGate is a gate for some environments.
type SharedGate struct {
	// Environments are patterns of their names, such as prod*. Default: all that come after another.
	Environments []string `json:"environments,omitempty"`
	// Name of the gate. A fleet cannot have one of the same name.
	Name string `json:"name" jsonschema:"required"`
	// Expr is true or false.
	Expr string `json:"expr" jsonschema:"required"`
	// Message says why a promotion waits while the expression is false. Default: the parts that are false.
	Message string `json:"message,omitempty"`
}

// GatesFrom names a file with gates in another repository.
type GatesFrom struct {
	// Repository is the name of a Repository of the fleet. sluice.lock pins its commit.
	Repository string `json:"repository" jsonschema:"required"`
	// Path of the file, of kind GateSet.
	Path string `json:"path" jsonschema:"required"`
}

// sharedGates adds the gates of spec.gates to the environments. If they cannot be read, each environment that comes after
// another gets a gate that is never open.
func (l *loader) sharedGates() {
	from, at := l.fleet.Spec.Gates, []string{"spec", "gates"}
	if from == (GatesFrom{}) {
		return
	}
	before := len(l.problems)
	sourceChecks{findings: l.findings, fleet: l.fleet}.mounted(l.file, append(slices.Clone(at), "repository"), from.Repository)
	if leavesRepository(from.Path) || path.Clean(from.Path) == "." {
		l.errorf(l.file, append(slices.Clone(at), "path"), "a file of the repository", "the path %q leaves the repository", from.Path)
	}
	if len(l.problems) > before {
		return
	}
	// decoded files are shared by commits
	l.fleet.Spec.Environments = slices.Clone(l.fleet.Spec.Environments)
	add := func(e *Environment, g GateExpression) {
		e.Promotion.Gates = append(slices.Clone(e.Promotion.Gates), g)
	}
	file := mounted(from.Repository, from.Path)
	data, err := readBounded(l.fleet.tree, file)
	if err != nil {
		if missing := l.fleet.unavailable[from.Repository]; missing != nil {
			err = missing
		}
		for i := range l.fleet.Spec.Environments {
			if e := &l.fleet.Spec.Environments[i]; len(e.After) > 0 {
				add(e, GateExpression{
					Name:        from.Repository,
					Unavailable: fmt.Sprintf("%s of repository %s cannot be read: %s", from.Path, from.Repository, readError(err)),
				})
			}
		}
		l.warnf(l.file, at, "promotions wait until it can be read", "gates: %s of repository %s: %s", from.Path, from.Repository,
			readError(err))
		return
	}
	for _, doc := range l.decodedGates(file, data) {
		set, ok := doc.value.(*GateSetFile)
		if !ok {
			l.errorf(doc, []string{"kind"}, "write kind: GateSet", "spec.gates takes only the kind GateSet from this file")
			continue
		}
		for i, g := range set.Spec.Gates {
			l.sharedGate(doc, g, []string{"spec", "gates", fmt.Sprint(i)}, add)
		}
	}
}

func (l *loader) decodedGates(file string, data []byte) []document {
	decoded := decodeFile(file, data)
	l.problems = append(l.problems, decoded.problems...)
	return decoded.documents
}

// sharedGate adds one gate to the environments that it is for.
func (l *loader) sharedGate(doc document, g SharedGate, at []string, add func(*Environment, GateExpression)) {
	if !l.checkName(doc, g.Name, append(slices.Clone(at), "name")...) {
		return
	}
	expr, err := expression.Compile(g.Expr)
	if err != nil {
		l.errorf(doc, append(slices.Clone(at), "expr"), "docs/gates.md lists what an expression can ask for", "gate %s: %v",
			g.Name, err)
		return
	}
	for _, pattern := range g.Environments {
		if _, err := path.Match(pattern, ""); err != nil {
			l.errorf(doc, append(slices.Clone(at), "environments"), "such as prod*", "gate %s: %q: %v", g.Name, pattern, err)
			return
		}
	}
	for i := range l.fleet.Spec.Environments {
		e := &l.fleet.Spec.Environments[i]
		applies := len(g.Environments) == 0 && len(e.After) > 0 || slices.ContainsFunc(g.Environments, func(p string) bool {
			ok, _ := path.Match(p, e.Name) // the pattern is valid
			return ok
		})
		if !applies {
			continue
		}
		if slices.ContainsFunc(e.Promotion.Gates, func(own GateExpression) bool { return own.Name == g.Name }) {
			l.errorf(doc, append(slices.Clone(at), "name"), "rename the fleet's own gate",
				"environment %s has a gate %s of its own, or the set has two", e.Name, g.Name)
			continue
		}
		for _, name := range expr.Keys("upstreams") {
			if !slices.Contains(e.After, name) {
				l.warnf(doc, append(slices.Clone(at), "expr"), "known: "+strings.Join(e.After, ", "),
					"gate %s asks for upstreams.%s, which environment %s does not come after: it is never open there", g.Name, name,
					e.Name)
			}
		}
		add(e, GateExpression{Name: g.Name, Expr: g.Expr, Message: g.Message})
	}
}
