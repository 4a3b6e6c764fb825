package review

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/report"
)

const (
	ownBase = "apiVersion: sluice.dev/v1alpha1\nkind: "
	// denyRed refuses every ConfigMap that is red.
	denyRed = "package main\n\n# METADATA\n# title: nothing is red\ndeny_red contains {\"msg\": msg, \"path\": \"data.color\", \"hint\": \"paint it\"} if {\n\tinput.data.color == \"red\"\n" +
		"\tmsg := sprintf(\"%s is red on %s, with at most %d\", [input.metadata.name, data.sluice.cluster.name, data.sluice.parameters.most])\n}\n"
	ownParameters = ownBase + "Policy\nmetadata: {name: own}\nspec: {parameters: {most: 3}}\n"
)

// ownFleet is a fleet with an app of its own and the workspaces team-a, with a policy, and team-b.
func ownFleet(rules string) map[string]string {
	files := map[string]string{
		"sluice.yaml": ownBase +
			"Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n",
		"clusters/dev.yaml": ownBase + "Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev}\n",
		"apps/web/app.yaml": ownBase +
			"App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: m}}}\n",
		"m/web.yaml":                        painted("red"),
		"workspaces/team-a/policy/own.rego": rules,
		"workspaces/team-a/policy/own.yaml": ownParameters,
	}
	for team, own := range map[string]string{"team-a": ", policy: {path: policy}", "team-b": ""} {
		files["workspaces/"+team+".yaml"] = ownBase + "Workspace\nmetadata: {name: " + team +
			"}\nspec: {clusters: {}, namespaces: [" + team + "]" + own + "}\n"
		files["workspaces/"+team+"/apps/web/app.yaml"] = ownBase + "App\nmetadata: {name: web}\nspec: {namespace: " +
			team + ", placement: {}, source: {manifests: {path: m}}}\n"
		files["workspaces/"+team+"/m/web.yaml"] = painted("red")
	}
	return files
}

func painted(color string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: paint}\ndata: {color: " + color + "}\n"
}

// ownRepo opens the repository fleet of a host. Its renderer works in this process.
func ownRepo(t *testing.T, h *hydratetest.Host) *session.Session {
	t.Helper()
	r := session.Runtime{
		Cache: t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
	s, err := session.Open(t.Context(), r, session.Options{
		Repo: filepath.Join(h.Root, "fleet"), Jobs: 1,
		Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func tip(t *testing.T, s *session.Session) gitstore.Commit {
	t.Helper()
	c, err := s.Commit(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// judged reviews whole environments at a commit by the policy of another one.
func judged(t *testing.T, s *session.Session, head, policy gitstore.Commit) *report.Review {
	t.Helper()
	r, err := inProcess(t, s, Request{Request: compare.Request{
		Head: head, Against: compare.AgainstNothing,
		Key: []byte("k"),
	}, Policy: policy.Tree, Entire: true, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// errorsOf lists the errors of a review as rule and app.
func errorsOf(r *report.Review) []string {
	var out []string
	for _, f := range r.Findings.Introduced {
		if f.Severity == report.SeverityError {
			out = append(out, f.Rule+" "+f.App)
		}
	}
	slices.Sort(out)
	return out
}

// The own policy of a workspace judges the objects of its own apps and no others, in a review as in a hydration and a
// promotion. What it forbids holds the workspace alone.
func TestOwnPolicyJudgesItsOwnApps(t *testing.T) {
	t.Parallel()
	h := hydratetest.NewHost(t)
	h.Commit("fleet", ownFleet(denyRed))
	s := ownRepo(t, h)
	red := tip(t, s)
	r := judged(t, s, red, red)
	if got := errorsOf(r); !slices.Equal(got, []string{"team-a/main.deny_red team-a/web"}) ||
		r.Verdict != report.VerdictFail {
		t.Fatalf("the verdict is %s, the result of errorsOf is %q, the errors are %q", r.Verdict, got, r.Errors)
	}
	f := r.Findings.Introduced[slices.IndexFunc(r.Findings.Introduced,
		func(f report.Finding) bool { return f.Severity == report.SeverityError })]
	if f.Message != "paint is red on dev-1, with at most 3" || f.Path != "data.color" || f.Hint != "paint it" ||
		f.Object.Namespace != "team-a" || f.Environment != "dev" || f.Docs != "" {
		t.Errorf("the fleet is %+v", f)
	}
	h.Commit("fleet", map[string]string{"workspaces/team-a/m/web.yaml": painted("blue")})
	written, err := s.Hydrate(t.Context(), hydrate.Request{Commit: tip(t, s), Write: true})
	if err != nil || !written.OK() || len(written.Environments[0].Held) > 0 {
		t.Fatalf("what the policy allows: %+v: %v", written, err)
	}
	h.Commit("fleet", map[string]string{
		"workspaces/team-a/m/web.yaml": painted("red"),
		"workspaces/team-b/m/web.yaml": painted("red, more: b"), "m/web.yaml": painted("green"),
	})
	written, err = s.Hydrate(t.Context(), hydrate.Request{Commit: tip(t, s), Write: true})
	if err != nil {
		t.Fatal(err)
	}
	one := written.Environments[0]
	if one.Status != hydrate.StatusUpdated || len(one.Held) != 1 || one.Held[0].Workspace != "team-a" ||
		one.Held[0].Violations[0].Rule != "team-a/main.deny_red" {
		t.Errorf("Summary is %s, the held is %+v", one.Summary(), one.Held)
	}
}

// The administrators of the fleet decide: they exempt from the own policy of a workspace, and switch enforcement off.
func TestOwnPolicyObeysTheFleet(t *testing.T) {
	t.Parallel()
	h := hydratetest.NewHost(t)
	h.Commit("fleet", ownFleet(denyRed))
	s := ownRepo(t, h)
	h.Commit("fleet", map[string]string{"policy/exempt.yaml": ownBase +
		"Exemption\nmetadata: {name: red}\nspec: {rule: team-a/main.deny_red, object: \"ConfigMap */paint\", reason: until the painter comes}\n"})
	exempted := tip(t, s)
	if r := judged(t, s, exempted, exempted); len(errorsOf(r)) > 0 || r.Findings.Exempted != 1 {
		t.Errorf("an exemption of the fleet: %q, %d", errorsOf(r), r.Findings.Exempted)
	}
	h.Commit("fleet", map[string]string{"policy/exempt.yaml": "", "sluice.yaml": ownBase +
		"Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}], policy: {enforce: false}}\n"})
	written, err := s.Hydrate(t.Context(), hydrate.Request{Commit: tip(t, s), Write: true})
	if err != nil || !written.OK() || len(written.Environments[0].Held) > 0 {
		t.Errorf("not enforced: %+v: %v", written, err)
	}
}

// The policy of the trunk counts, not the one that a change brings.
func TestOwnPolicyIsThatOfTheTrunk(t *testing.T) {
	t.Parallel()
	h := hydratetest.NewHost(t)
	files := ownFleet(denyRed)
	files["workspaces/team-a/m/web.yaml"] = painted("blue")
	h.Commit("fleet", files)
	s := ownRepo(t, h)
	trunk := tip(t, s)
	for name, change := range map[string]map[string]string{
		"without the rule": {"workspaces/team-a/policy/own.rego": "package main\n"},
		"without the declaration": {"workspaces/team-a.yaml": ownBase +
			"Workspace\nmetadata: {name: team-a}\nspec: {clusters: {}, namespaces: [team-a]}\n"},
		"with an exemption": {"workspaces/team-a/policy/e.yaml": ownBase +
			"Exemption\nmetadata: {name: x}\nspec: {rule: \"*\", object: \"*\", reason: x}\n"},
		"switched off": {"workspaces/team-a/policy/own.yaml": ownBase +
			"Policy\nmetadata: {name: own}\nspec: {rules: {main.deny_red: {severity: \"off\"}}, parameters: {most: 3}}\n"},
	} {
		change["workspaces/team-a/m/web.yaml"] = painted("red")
		h.Commit("fleet", change)
		head := tip(t, s)
		r, err := inProcess(t, s, Request{
			Request: compare.Request{Base: trunk, Head: head, Key: []byte("k")},
			Policy:  trunk.Tree, Offline: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := errorsOf(r); !slices.Equal(got, []string{"team-a/main.deny_red team-a/web"}) {
			t.Errorf("%s: the result of errorsOf is %q", name, got)
		}
		h.Git("fleet", "reset", "--quiet", "--hard", trunk.Hash.String())
	}
	// A review shows that the policy which a change brings could not be evaluated after the merge.
	h.Commit("fleet", map[string]string{"workspaces/team-a/policy/own.rego": "package main\n\ndeny contains {\n"})
	r, err := inProcess(t, s, Request{
		Request: compare.Request{Base: trunk, Head: tip(t, s), Key: []byte("k")},
		Policy:  trunk.Tree, Offline: true,
	})
	if err != nil || r.Verdict != report.VerdictError || len(r.Errors) != 1 ||
		!strings.Contains(r.Errors[0], "workspaces/team-a/policy/own.rego:4") {
		t.Errorf("%+v: the error is %v", r, err)
	}
}

// A policy that cannot be evaluated is an error of its workspace, and of no other.
func TestOwnPolicyThatFails(t *testing.T) {
	t.Parallel()
	const allow = "package main\n\ndeny contains \"x\" if false\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"does not compile": {map[string]string{"workspaces/team-a/policy/own.rego": "package main\n\ndeny contains {\n"}, "workspaces/team-a/policy/own.rego:4"},
		"asks a server":    {map[string]string{"workspaces/team-a/policy/own.rego": "package main\n\ndeny contains http.send({}) if true\n"}, "http.send is not allowed"},
		"has no folder": {map[string]string{
			"workspaces/team-a/policy/own.rego": "",
			"workspaces/team-a/policy/own.yaml": "",
		}, "the folder does not exist"},
		"sets a built-in rule": {
			map[string]string{"workspaces/team-a/policy/x.yaml": ownBase +
				"Policy\nmetadata: {name: x}\nspec: {rules: {privileged: {severity: \"off\"}}}\n"},
			`has no rule "privileged"`,
		},
		"sets a rule of bounds": {
			map[string]string{"workspaces/team-a/policy/x.yaml": ownBase +
				"Policy\nmetadata: {name: x}\nspec: {rules: {workspace-kind: {severity: \"off\"}}}\n"},
			`has no rule "workspace-kind"`,
		},
		"chooses schemas": {map[string]string{"workspaces/team-a/policy/x.yaml": ownBase +
			"Policy\nmetadata: {name: x}\nspec: {schemas: {locations: [\"https://evil.example.com/{{.ResourceKind}}.json\"]}}\n"}, "cannot choose the schemas"},
		"has an object of a fleet": {map[string]string{"workspaces/team-a/policy/x.yaml": ownBase +
			"Fleet\nmetadata: {name: x}\n"}, "unknown kind Fleet"},
		"fails":              {map[string]string{"workspaces/team-a/policy/own.rego": "package main\n\ndeny contains \"x\" if { 1 / (count(input.data) - 1) == 1 }\n"}, "divide by zero"},
		"has too many files": {many("workspaces/team-a/policy/f%d.rego", 201), "at most 200 files"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hydratetest.NewHost(t)
			files := ownFleet(allow)
			maps.Copy(files, c.files)
			maps.DeleteFunc(files, func(_, text string) bool { return text == "" })
			h.Commit("fleet", files)
			s := ownRepo(t, h)
			commit := tip(t, s)
			r := judged(t, s, commit, commit)
			if got := errorsOf(r); !slices.Equal(got, []string{"team-a/policy-error team-a/web"}) {
				t.Fatalf("the result of errorsOf is %q, the errors are %q", got, r.Errors)
			}
			if m := r.Findings.Introduced[0].Message; !strings.Contains(m, c.want) {
				t.Errorf("the message is %s", m)
			}
			written, err := s.Hydrate(t.Context(), hydrate.Request{Commit: commit, Write: true})
			if err != nil {
				t.Fatal(err)
			}
			if one := written.Environments[0]; !strings.Contains(one.Summary()+one.Reason, "team-a") ||
				strings.Contains(one.Summary()+one.Reason, "team-b") {
				t.Errorf("Summary is %s, the reason is %s", one.Summary(), one.Reason)
			}
		})
	}
}

func many(pattern string, n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprintf(pattern, i)] = "package main\n"
	}
	return out
}

// What a workspace exempts from are its own rules. The bounds and the rules of the fleet hold.
func TestOwnPolicyExemptsOnlyFromItself(t *testing.T) {
	t.Parallel()
	h := hydratetest.NewHost(t)
	files := ownFleet(denyRed)
	files["workspaces/team-a/policy/exempt.yaml"] = ownBase +
		"Exemption\nmetadata: {name: all}\nspec: {rule: \"*\", object: \"*\", reason: because}\n"
	files["policy/red.rego"] = strings.Replace(denyRed, "deny_red", "deny_color", 1)
	files["policy/parameters.yaml"] = ownParameters
	files["workspaces/team-a/m/role.yaml"] = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}\nrules: []\n"
	h.Commit("fleet", files)
	s := ownRepo(t, h)
	commit := tip(t, s)
	r := judged(t, s, commit, commit)
	want := []string{
		"main.deny_color team-a/web", "main.deny_color team-b/web", "main.deny_color web",
		"workspace-kind team-a/web",
	}
	if got := slices.DeleteFunc(errorsOf(r), func(one string) bool {
		return strings.HasPrefix(one,
			"workspace-rbac")
	}); !slices.Equal(got, want) || r.Findings.Exempted != 1 {
		t.Errorf("%q, %d exempted", got, r.Findings.Exempted)
	}
	rules, mistakes, err := s.OwnPolicies().Rules(t.Context(), commit.Tree)
	if err != nil || len(mistakes) > 0 || len(rules) != 1 || rules[0].ID != "team-a/main.deny_red" ||
		rules[0].Title != "nothing is red" || rules[0].File != "workspaces/team-a/policy/own.rego" {
		t.Errorf("the rules are %+v, the mistakes are %q, the error is %v", rules, mistakes, err)
	}
}

// If the workspace is in another repository, the rules of the commit that the trunk pins count: a merge request there
// cannot change the rules that judge it. That holds for a stranger's merge request too, of which only the compared
// commits and the pinned one are read.
func TestOwnPolicyOfAnotherRepository(t *testing.T) {
	t.Parallel()
	h := hydratetest.NewHost(t)
	team := map[string]string{
		"apps/web/app.yaml": ownBase +
			"App\nmetadata: {name: web}\nspec: {namespace: team-a, placement: {}, source: {manifests: {path: m}}}\n",
		"m/web.yaml": painted("blue"), "policy/own.rego": denyRed, "policy/own.yaml": ownParameters,
	}
	pinned := h.Commit("team", team)
	base := h.Commit("team", map[string]string{"m/web.yaml": painted("green")})
	head := h.Commit("team", map[string]string{"m/web.yaml": painted("red"), "policy/own.rego": "package main\n"})
	h.Commit("fleet", map[string]string{
		"sluice.yaml":            ownBase + "Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n",
		"clusters/dev.yaml":      ownBase + "Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev}\n",
		"repositories/team.yaml": h.Repository("team"),
		"sluice.lock":            h.Lock(map[string]string{"team": pinned}),
		"workspaces/team-a.yaml": ownBase +
			"Workspace\nmetadata: {name: team-a}\nspec: {repository: team, clusters: {}, namespaces: [team-a], policy: {path: policy}}\n",
	})
	s := ownRepo(t, h)
	trunk := tip(t, s)
	none := func(string) gitstore.Auth { return gitstore.Auth{} }
	url := h.URL + "/team/.git"
	at := func(commit string) gitstore.Hash {
		hash, err := gitstore.ParseHash(commit)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Store.FetchPinned(t.Context(), url, none(url), hash); err != nil {
			t.Fatal(err)
		}
		return hash
	}
	at(pinned)
	pins := []Pin{{Name: "team", URL: url, Base: at(base), Head: at(head)}}
	stranger := func(commits []source.Pinned) *session.Session {
		return s.WithoutCredentials().WithPinned(commits, none)
	}
	all := PinnedCommits(t.Context(), s, trunk.Tree, pins)
	for name, one := range map[string]*session.Session{"by a member": s, "by a stranger": stranger(all)} {
		r, err := inProcess(t, one, Request{
			Request: compare.Request{Base: trunk, Head: trunk, Key: []byte("k")},
			Policy:  trunk.Tree, Pins: pins, Offline: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := errorsOf(r); !slices.Equal(got, []string{"team-a/main.deny_red team-a/web"}) {
			t.Errorf("%s: the result of errorsOf is %q, the errors are %q", name, got, r.Errors)
		}
	}
	// Rules that cannot be read fail the review, even if they could not be read before the change either.
	unread, err := inProcess(t, stranger(all[:2]), Request{Request: compare.Request{
		Base: trunk, Head: trunk,
		Key: []byte("k"),
	}, Policy: trunk.Tree, Pins: pins, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := errorsOf(unread); !slices.Equal(got, []string{"team-a/policy-error team-a/web"}) ||
		unread.Verdict != report.VerdictFail {
		t.Errorf("without the rules: %s %q", unread.Verdict, got)
	}
	rules, mistakes, err := s.OwnPolicies().Rules(t.Context(), trunk.Tree)
	if want := "team@" + pinned[:7] + ":policy/own.rego"; err != nil || len(mistakes) > 0 || len(rules) != 1 ||
		rules[0].File != want {
		t.Errorf("the rules are %+v, the mistakes are %q, the error is %v, want %s", rules, mistakes, err, want)
	}
}
