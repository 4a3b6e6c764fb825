package policy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/internal/yamlmistake"
	"github.com/sluice-gitops/sluice/policy/confine"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Dir is the folder of the policy in a source repository.
const Dir = "policy"

const (
	maxFiles = 2_000
	maxFile  = 4 << 20 // bytes
)

// Options of an engine.
type Options struct {
	Schemas      Schemas                    // nil: schemas are not checked, and a note says so
	Now          time.Time                  // for exemptions, and time.now_ns() in Rego
	Environments []string                   // names of the fleet's environments; nil: names are not checked
	Workspaces   map[string]*confine.Bounds // of the trunk, by name; a workspace without bounds may contain nothing
	Own          Own                        // the workspaces' own policies; nil: no workspace has one
	Parallel     int                        // number of objects to judge in parallel; 0 means 1

	// RuleTimeout is the time limit for the fleet's own rules on one object; 0 means 10 seconds.
	RuleTimeout time.Duration
}

// Problem is a mistake in a policy file. Line and Column count from 1; 0 is unknown.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// String returns the problem in the format of compilers: FILE:LINE:COLUMN: error: message.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
	}
	b.WriteString(": error: " + p.Message)
	return b.String()
}

// Problems lists all mistakes in a policy, by file and line.
type Problems []Problem

// Strings returns each problem as text.
func (p Problems) Strings() []string {
	out := make([]string, len(p))
	for i := range p {
		out[i] = p[i].String()
	}
	return out
}

// Error returns one line for each problem.
func (p Problems) Error() string { return strings.Join(p.Strings(), "\n") }

// Engine judges objects. It is safe for concurrent use.
type Engine struct {
	options    Options
	dir        string // of its files
	own        bool   // of a workspace: only the rules of the files are evaluated
	rules      map[string]ruleSpec
	known      map[string]Rule
	exemptions []exemption
	parameters map[string]any
	schemaSpec schemaSpec
	rego       *regoRules
	admission  []*admissionPolicy
}

// Load loads the policy of a source repository. It returns all mistakes at once, as Problems. A missing folder is an
// empty policy, with only the built-in rules.
func Load(ctx context.Context, repository fs.FS, o Options) (*Engine, error) {
	files, err := policyFiles(repository, Dir)
	if err != nil {
		return nil, err
	}
	l := &loader{engine: &Engine{options: o, dir: Dir, rules: map[string]ruleSpec{}, known: map[string]Rule{}}}
	for _, r := range BuiltIn() {
		l.engine.known[r.ID] = r
	}
	return l.load(ctx, files)
}

// load reads the files of a policy.
func (l *loader) load(ctx context.Context, files []File) (*Engine, error) {
	for _, f := range files {
		switch {
		case strings.HasSuffix(f.Name, ".rego"):
			l.modules = append(l.modules, f)
		default:
			l.yamlFile(f)
		}
	}
	if err := l.finish(ctx); err != nil {
		return nil, err
	}
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	return l.engine, nil
}

type loader struct {
	engine   *Engine
	modules  []File
	vaps     []document
	bindings []document
	params   []manifest.Object
	at       map[string]place // position where each rule is configured
	problems Problems
}

// place is a line of a file.
type place struct {
	file string
	line int
}

type document struct {
	file   string
	line   int
	object manifest.Object
}

func (l *loader) errorf(at string, line int, format string, args ...any) {
	l.problems = append(l.problems, Problem{File: at, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (l *loader) mistake(at string, m yamlmistake.Mistake) {
	if m.Hint != "" {
		m.Message += " (" + m.Hint + ")"
	}
	l.errorf(at, m.Line, "%s", m.Message)
}

// yamlFile reads each document of a file by its kind.
func (l *loader) yamlFile(f File) {
	if err := manifest.Check(f.Data, manifest.DefaultBudget()); err != nil {
		l.errorf(f.Name, 0, "%v", err)
		return
	}
	decoder := yaml.NewDecoder(bytes.NewReader(f.Data))
	for i := 0; ; i++ {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			l.mistake(f.Name, yamlmistake.Explain(err, f.Data, nil)[0])
			return
		}
		if len(node.Content) == 0 || node.Content[0].Kind == yaml.ScalarNode && node.Content[0].Value == "" {
			continue
		}
		var h header
		if err := node.Decode(&h); err != nil || h.Kind == "" {
			l.errorf(f.Name, node.Line,
				"the document has no kind (allowed are Policy, Exemption, ValidatingAdmissionPolicy, its binding and its parameters)")
			continue
		}
		l.document(f, i, node.Content[0].Line, h)
	}
}

func (l *loader) document(f File, index, line int, h header) {
	switch {
	case h.APIVersion == APIVersion && h.Kind == "Policy":
		var p policyFile
		if l.decode(f, index, &p) {
			l.policy(f.Name, line, &p)
		}
	case h.APIVersion == APIVersion && h.Kind == "Exemption":
		var e exemptionFile
		if !l.decode(f, index, &e) {
			return
		}
		until, err := e.Spec.check()
		if err != nil {
			l.errorf(f.Name, line, "exemption %s: %v", e.Metadata.Name, err)
			return
		}
		l.engine.exemptions = append(l.engine.exemptions, exemption{
			exemptionSpec: e.Spec, name: e.Metadata.Name,
			file: fmt.Sprintf("%s:%d", f.Name, line), until: until,
		})
	case h.APIVersion == APIVersion:
		l.errorf(f.Name, line, "unknown kind %s (allowed are Policy and Exemption)", h.Kind)
	default:
		l.kubernetes(f, index, line, h)
	}
}

// decode decodes one document strictly.
func (l *loader) decode(f File, index int, into any) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(f.Data))
	for range index {
		var skip yaml.Node
		if err := decoder.Decode(&skip); err != nil {
			return false
		}
	}
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		for _, m := range yamlmistake.Explain(err, f.Data, into) {
			l.mistake(f.Name, m)
		}
		return false
	}
	return true
}

func (l *loader) policy(name string, line int, p *policyFile) {
	if l.at == nil {
		l.at = map[string]place{}
	}
	for id, r := range p.Spec.Rules {
		if other, twice := l.at[id]; twice {
			l.errorf(name, line, "rule %s is also configured in %s:%d: keep one", id, other.file, other.line)
			continue
		}
		l.at[id] = place{name, line}
		if r.Severity != "" && !r.Severity.valid() {
			l.errorf(name, line, "rule %s: severity %q is not error, warning, info or off", id, r.Severity)
		}
		for environment, s := range r.Environments {
			if !s.valid() {
				l.errorf(name, line, "rule %s: severity %q in %s is not error, warning, info or off", id, s,
					environment)
			}
			if l.engine.options.Environments != nil && !slices.Contains(l.engine.options.Environments, environment) {
				l.errorf(name, line, "rule %s: the fleet has no environment %q", id, environment)
			}
		}
		if err := r.Allow.check(); err != nil {
			l.errorf(name, line, "rule %s: %v", id, err)
		}
		l.engine.rules[id] = r
	}
	l.schemas(name, line, p.Spec.Schemas)
	for k, v := range p.Spec.Parameters {
		if l.engine.parameters == nil {
			l.engine.parameters = map[string]any{}
		}
		l.engine.parameters[k] = v
	}
}

func (l *loader) schemas(name string, line int, s schemaSpec) {
	if l.engine.own && (len(s.Locations) > 0 || s.AllowUnknownFields) {
		l.errorf(name, line, "spec.schemas: the policy of a workspace cannot choose the schemas (the fleet's policy does)")
	}
	if len(s.Locations) > 0 {
		l.engine.schemaSpec.Locations = s.Locations
	}
	l.engine.schemaSpec.AllowUnknownFields = l.engine.schemaSpec.AllowUnknownFields || s.AllowUnknownFields
}

// finish compiles the rules.
func (l *loader) finish(ctx context.Context) error {
	e := l.engine
	var problems Problems
	var err error
	e.rego, err = loadRego(ctx, l.modules, e.parameters, e.options)
	switch {
	case errors.As(err, &problems):
		l.problems = append(l.problems, problems...)
	case err != nil:
		return err
	default:
		for _, r := range e.rego.rules {
			e.known[r.ID] = r
		}
	}
	l.admission()
	for id := range e.rules {
		if _, ok := e.known[id]; !ok && len(l.problems) == 0 {
			message := "no rule %q exists (`sluice policy list` lists all rules)"
			if l.engine.own {
				message = "the policy of the workspace has no rule %q: it sets only rules of its own"
			}
			l.errorf(l.at[id].file, l.at[id].line, message, id)
		}
	}
	slices.SortStableFunc(l.problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			strings.Compare(a.Message, b.Message))
	})
	return nil
}

// Rules returns all rules, also the fleet's own, by identifier.
func (e *Engine) Rules() []Rule {
	out := make([]Rule, 0, len(e.known))
	for _, r := range e.known {
		if s := e.rules[r.ID].Severity; s != "" {
			r.Severity = s
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b Rule) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// SchemaLocations returns the locations of a fleet's schemas; empty means the default. Callers need them before they
// load the engine.
func SchemaLocations(repository fs.FS) ([]string, error) {
	files, err := policyFiles(repository, Dir)
	if err != nil {
		return nil, err
	}
	l := &loader{engine: &Engine{rules: map[string]ruleSpec{}, known: map[string]Rule{}}}
	for _, f := range files {
		if !strings.HasSuffix(f.Name, ".rego") {
			l.yamlFile(f)
		}
	}
	return l.engine.schemaSpec.Locations, nil // Load reports problems
}

// severity returns the severity of a rule in an environment. own is the severity of the finding, "" for the rule's.
func (e *Engine) severity(rule string, own Severity, environment string) Severity {
	if OfWorkspace(rule) {
		return SeverityError
	}
	spec := e.rules[rule]
	if s, ok := spec.Environments[environment]; ok {
		return s
	}
	if spec.Severity != "" {
		return spec.Severity
	}
	if own != "" {
		return own
	}
	return e.known[rule].Severity
}

func (e *Engine) allow(rule string) *allowList {
	a := e.rules[rule].Allow
	return &a
}
