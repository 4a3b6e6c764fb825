package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Own judges the objects of workspaces by the policies that the workspaces have themselves. It must be safe for
// concurrent use.
type Own interface {
	// Judge returns what the own policy of a workspace finds in targets of its apps; nil if it has no policy. An error
	// means that nothing can be judged at the moment, whatever the policy is. A check calls it for each batch, and
	// limits hold for the whole check: Judge adds what a call costs to used, which nothing else reads or writes
	// meanwhile.
	Judge(ctx context.Context, workspace string, subjects []Subject, used *OwnUse) (*OwnResult, error)
}

// OwnUse is what the own policy of a workspace has cost in one check.
type OwnUse struct {
	Sent, Answered int // bytes
	CPU            time.Duration

	findings, text int             // see maxOwnFindings and maxOwnReport
	notes          map[string]bool // see maxOwnNotes
}

// OwnResult is what the own policy of a workspace finds. Nobody trusts it: it comes from files that the workspace
// writes.
type OwnResult struct {
	Findings []Finding
	Notes    []string
	Failed   string // why the policy could not be evaluated; "" if it was
}

// Limits of the own policy of a workspace.
const (
	maxOwnFiles    = 200
	maxOwnBytes    = 4 << 20 // of all files
	maxOwnFindings = 10_000  // of one check
	maxOwnReport   = 4 << 20 // bytes of their texts: a report holds those of many workspaces
	maxOwnNotes    = 20      // of one check
	maxOwnLines    = 5       // of a message
	maxOwnText     = 1000    // characters of a line
	maxOwnName     = 200     // characters of the name of a rule
)

// OwnFiles reads the files of a workspace's policy. Mistakes are Problems; a missing folder is one of them, because the
// trunk declares it.
func OwnFiles(tree fs.FS, dir string) ([]File, error) {
	info, err := fs.Stat(tree, dir)
	if err == nil && !info.IsDir() {
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Problems{{
			File:    dir,
			Message: "the folder does not exist (add it, or remove spec.policy from the declaration of the workspace)",
		}}
	}
	if err != nil {
		return nil, unreadable(dir, err)
	}
	files, err := policyFiles(tree, dir)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, f := range files {
		size += len(f.Data)
	}
	if len(files) > maxOwnFiles || size > maxOwnBytes {
		return nil, Problems{{
			File:    dir,
			Message: fmt.Sprintf("the policy of a workspace may have at most %d files with %d bytes together, and it has %d with %d", maxOwnFiles, maxOwnBytes, len(files), size),
		}}
	}
	return files, nil
}

// LoadOwn loads the own policy of a workspace from a folder. The engine evaluates no built-in rule and none of the
// fleet, and the documents of the folder set, and exempt from, only its own rules. It returns all mistakes at once, as
// Problems.
func LoadOwn(ctx context.Context, dir string, files []File, o Options) (*Engine, error) {
	o.Schemas, o.Workspaces, o.Own = nil, nil, nil
	l := &loader{engine: &Engine{
		options: o, dir: dir, own: true, rules: map[string]ruleSpec{},
		known: map[string]Rule{},
	}}
	for _, r := range BuiltIn() {
		if r.ID == RulePolicyError || r.ID == RuleExemptionExpired {
			l.engine.known[r.ID] = r
		}
	}
	engine, err := l.load(ctx, files)
	if problems, ok := errors.AsType[Problems](err); ok {
		for i := range problems {
			if problems[i].File == Dir { // OPA gave no position
				problems[i].File = dir
			}
		}
	}
	return engine, err
}

// ownPolicies adds what the workspaces' own policies find in their own apps of the batch.
func (r *run) ownPolicies(ctx context.Context) error {
	if r.engine.options.Own == nil {
		return nil
	}
	byWorkspace := map[string][]Subject{}
	for _, s := range r.subjects {
		if name := workspaceOf(s.App.Name); r.engine.options.Workspaces[name] != nil && len(s.Objects) > 0 {
			byWorkspace[name] = append(byWorkspace[name], s)
		}
	}
	names := slices.Sorted(maps.Keys(byWorkspace))
	for _, name := range names {
		if r.own[name] == nil {
			r.own[name] = &OwnUse{notes: map[string]bool{}}
		}
	}
	results := make([]*OwnResult, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, r.engine.options.Parallel))
	for i, name := range names {
		group.Go(func() (err error) {
			results[i], err = r.engine.options.Own.Judge(ctx, name, byWorkspace[name], r.own[name])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, name := range names {
		if results[i] != nil {
			r.addOwn(name, byWorkspace[name], results[i])
		}
	}
	return nil
}

// addOwn adds the findings of a workspace's own policy. A result that is about anything but the objects that the
// workspace was asked about does not count, and is itself a finding.
func (r *run) addOwn(workspace string, subjects []Subject, result *OwnResult) {
	failed, used := result.Failed, r.own[workspace]
	if used.findings += len(result.Findings); used.findings > maxOwnFindings {
		failed = cmp.Or(failed, fmt.Sprintf("it has more than %d findings", maxOwnFindings))
	}
	environments := map[ownObject]string{}
	for i := range subjects {
		s := &subjects[i]
		for j := range s.Objects {
			environments[ownObject{s.Cluster.Name, s.App.Name, s.Objects[j].Object.Identity()}] = s.Cluster.Environment
		}
	}
	if failed == "" {
		for i := range result.Findings {
			f := &result.Findings[i]
			if used.text += f.shorten(); used.text > maxOwnReport {
				failed = fmt.Sprintf("its findings have more than %d MiB of text", maxOwnReport>>20)
				break
			}
			if _, ok := environments[ownObject{f.Cluster, f.App, f.Object}]; !ok || f.Severity.rank() < 0 ||
				f.Severity == SeverityOff {
				failed = "its answer is about objects that are not its own"
				break
			}
		}
	}
	if failed != "" {
		for i := range subjects {
			s := &subjects[i]
			r.ownFinding(workspace, environments, Finding{
				Rule: RulePolicyError, Severity: SeverityError, Message: OwnText("the policy of workspace " +
					workspace + " could not be evaluated: " + failed),
				Hint: "fix the policy of the workspace", Object: s.Objects[0].Object.Identity(), App: s.App.Name,
				Cluster: s.Cluster.Name,
			})
		}
		return
	}
	for i := range result.Findings {
		r.ownFinding(workspace, environments, result.Findings[i])
	}
	for _, note := range result.Notes {
		if note = OwnText(note); used.notes[note] {
			continue
		}
		if len(used.notes) == maxOwnNotes {
			break
		}
		used.notes[note] = true
		r.notes.add(fmt.Sprintf("policy of workspace %s: %s", workspace, note), "")
	}
}

// ownObject is an object that a workspace's own policy may judge.
type ownObject struct {
	cluster, app string
	object       manifest.Identity
}

// ownFinding adds one finding, whose texts are short. Its rule begins with the name of the workspace, so that it is
// never taken for a rule of the fleet, whose exemptions can cover it.
func (r *run) ownFinding(workspace string, environments map[ownObject]string, f Finding) {
	out := Finding{
		Rule: OwnRule(workspace, f.Rule), Severity: f.Severity, Own: true,
		Message: f.Message, Hint: f.Hint, Path: f.Path, Object: f.Object, App: f.App, Cluster: f.Cluster,
		Environment: environments[ownObject{f.Cluster, f.App, f.Object}],
	}
	if f.Exemption != nil {
		out.Exemption = f.Exemption
	} else {
		r.exempt(&out)
	}
	r.out = append(r.out, out)
}

// shorten escapes and shortens the texts of a finding of an own policy, and returns their size.
func (f *Finding) shorten() int {
	size := len(f.Rule)
	texts := []*string{&f.Message, &f.Hint, &f.Path}
	if f.Exemption != nil {
		texts = append(texts, &f.Exemption.Reason, &f.Exemption.Until, &f.Exemption.File)
	}
	for _, text := range texts {
		*text = OwnText(*text)
		size += len(*text)
	}
	return size
}

// OwnRule returns the name under which findings show a rule of a workspace's own policy, such as
// team-a/main.deny_latest.
func OwnRule(workspace, rule string) string {
	return workspace + "/" + strings.ReplaceAll(safetext.Brief(rule, maxOwnName), "/", "_")
}

// OwnText escapes and shortens a text of a workspace's own policy.
func OwnText(text string) string { return safetext.Message(text, maxOwnLines, maxOwnText) }
