package enforce_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/policy"
)

// owners is a fleet with an app of its own and two workspaces, which may contain Ingresses of other groups.
func owners(t *testing.T) *hydratetest.Repo {
	t.Helper()
	r := hydratetest.New(t)
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	r.Write("sluice.yaml", base+"Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n")
	r.Write("clusters/dev-1.yaml", base+"Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev}\n")
	r.Write("apps/web/app.yaml", base+
		"App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: m}}}\n")
	r.Write("m/web.yaml", own("web"))
	for _, team := range []string{"team-a", "team-b"} {
		r.Write("workspaces/"+team+".yaml", base+"Workspace\nmetadata: {name: "+team+
			"}\nspec: {clusters: {}, namespaces: ["+team+
			"], kinds: {clusterScoped: [PriorityClass.scheduling.k8s.io]}}\n")
		r.Write("workspaces/"+team+"/apps/web/app.yaml", base+"App\nmetadata: {name: web}\nspec: {namespace: "+team+
			", placement: {}, source: {manifests: {path: m}}}\n")
		r.Write("workspaces/"+team+"/m/web.yaml", own(team))
	}
	r.Commit("owners")
	return r
}

func own(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

const class = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: shared}\nvalue: 1\n"

func held(e hydrate.EnvironmentResult) string {
	var out []string
	for _, h := range e.Held {
		out = append(out, h.Workspace)
	}
	return strings.Join(out, " ")
}

// Of two apps that contain one object, the one that the branch has it from keeps it.
func TestWhoHadAnObjectKeepsIt(t *testing.T) {
	t.Parallel()
	write := func(r *hydratetest.Repo, more string, who ...string) {
		for _, name := range who {
			file := "workspaces/" + name + "/m/web.yaml"
			if name == "web" {
				file = "m/web.yaml"
			}
			r.Write(file, own(name)+more+class)
		}
		r.Commit("a class for " + strings.Join(who, ", "))
	}
	for name, c := range map[string]struct {
		first, then  []string
		held, status string
	}{
		"a newcomer":                  {[]string{"team-a"}, []string{"team-b"}, "team-b", "updated"},
		"the first changes, too":      {[]string{"team-a"}, []string{"team-a", "team-b"}, "team-b", "updated"},
		"neither was first":           {nil, []string{"team-a", "team-b"}, "team-a team-b", "updated"},
		"a newcomer beside the fleet": {[]string{"web"}, []string{"team-b"}, "team-b", "updated"},
		"with the fleet":              {nil, []string{"web", "team-b"}, "team-b", "updated"},
		"the fleet is the newcomer":   {[]string{"team-a"}, []string{"web"}, "", "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := owners(t)
			if len(c.first) > 0 {
				write(r, "", c.first...)
			}
			if e := run(r, nil); e.Status != hydrate.StatusUpdated || len(e.Held) > 0 {
				t.Fatalf("first: %s", e.Summary())
			}
			write(r, "---\n"+own("another"), c.then...)
			e := run(r, nil)
			if string(e.Status) != c.status || held(e) != c.held {
				t.Fatalf("%s: the violations are %+v", e.Summary(), e.Violations)
			}
			if c.status == "refused" && (len(e.Violations) != 1 ||
				!strings.Contains(e.Violations[0].Message,
					"app team-a/web of workspace team-a has had this object before")) {
				t.Errorf("the violations are %+v", e.Violations)
			}
			for _, h := range e.Held {
				if len(e.Held) == 2 != strings.Contains(h.Violations[0].Message, "both workspaces are held") {
					t.Errorf("the header is %+v", h)
				}
			}
		})
	}
}

// A second app in the workspace does not hide that another workspace or the fleet has the object.
func TestSeveralAppsDoNotTakeAnObjectOver(t *testing.T) {
	t.Parallel()
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	classes := func(r *hydratetest.Repo, value string, apps ...string) {
		for _, app := range apps {
			folder, name := "", app
			if team, of, ok := strings.Cut(app, "/"); ok {
				folder, name = "workspaces/"+team+"/", of
				r.Write(folder+"apps/"+name+"/app.yaml", base+"App\nmetadata: {name: "+name+"}\nspec: {namespace: "+
					team+", placement: {}, source: {manifests: {path: "+name+"}}}\n")
			} else {
				r.Write("apps/"+name+"/app.yaml", base+"App\nmetadata: {name: "+name+"}\nspec: {namespace: "+name+
					", placement: {}, source: {manifests: {path: "+name+"}}}\n")
			}
			r.Write(folder+name+"/class.yaml",
				"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: shared}\nvalue: "+value+"\n")
		}
		r.Commit("a class for " + strings.Join(apps, ", "))
	}
	for name, c := range map[string]struct {
		first, then  []string
		held, status string
	}{
		"two apps": {
			[]string{"web"},
			[]string{"team-a/web", "team-a/zap"},
			"team-a",
			"updated",
		},
		"two apps, one after another":     {[]string{"web"}, []string{"team-a/zap"}, "team-a", "updated"},
		"two apps at once with the fleet": {nil, []string{"web", "team-a/app", "team-a/zap"}, "team-a", "updated"},
		"two apps that had it":            {[]string{"team-a/app", "team-a/zap"}, []string{"web"}, "", "refused"},
		"one of two apps had it": {
			[]string{"team-a/zap"},
			[]string{"web", "team-a/app"},
			"team-a",
			"refused",
		},
		"three parties, the fleet first": {
			[]string{"web"},
			[]string{"team-a/zap", "team-b/zap"},
			"team-a team-b",
			"updated",
		},
		"three parties, a workspace first": {
			[]string{"team-a/zap"},
			[]string{"base", "team-a/app", "team-b/app"},
			"team-a team-b", "refused",
		},
		"two apps of the fleet": {[]string{"web"}, []string{"base", "team-a/zap"}, "team-a", "updated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := owners(t)
			if c.first != nil {
				classes(r, "1", c.first...)
			}
			if e := run(r, nil); e.Status != hydrate.StatusUpdated || len(e.Held) > 0 {
				t.Fatalf("first: %s", e.Summary())
			}
			classes(r, "2", c.then...)
			e := run(r, nil)
			if string(e.Status) != c.status || held(e) != c.held {
				t.Fatalf("%s, held %q: %+v", e.Summary(), held(e), e.Violations)
			}
		})
	}
}

// An object is found under any name that its file can have.
func TestOwnersOfFilesWithSuffixes(t *testing.T) {
	t.Parallel()
	r := owners(t)
	ingress := func(group string) string {
		return "---\napiVersion: " + group + "/v1\nkind: Role\nmetadata: {name: x, namespace: team-a}\n"
	}
	r.Write("m/web.yaml", own("web")+ingress("rbac.authorization.k8s.io")+ingress("example.com"))
	r.Commit("two kinds Role: their files have the group in their names")
	run(r, nil)
	r.Write("workspaces/team-a/m/web.yaml", own("team-a")+ingress("rbac.authorization.k8s.io"))
	r.Commit("the same role")
	e := run(r, nil)
	if held(e) != "team-a" || len(e.Held[0].Violations) != 1 || e.Held[0].Violations[0].Rule != "workspace-owner" {
		t.Errorf("Summary is %s", e.Summary())
	}
}

// A message shows no value of a Secret, even if the Secret is in a target of a workspace that was rendered without a
// change.
func TestSecretsOfWorkspacesAreMaskedInMessages(t *testing.T) {
	t.Parallel()
	r := owners(t)
	allow := func(q *hydrate.Request) {
		q.AllowPolicy, q.Reason, q.NoCache = []string{policy.RulePlaintextSecret}, "a test", true
	}
	r.Write("workspaces/team-a/m/secret.yaml", secret)
	r.Commit("a secret of team-a")
	if e := run(r, allow); e.Status != hydrate.StatusUpdated || len(e.Held) > 0 {
		t.Fatalf("first: %s %+v", e.Summary(), e.Violations)
	}
	r.Write("policy/own.rego", strings.Replace(rego, `"bad is not allowed"`, `sprintf("bad is %s", [input.data.bad])`,
		1))
	r.Write("m/web.yaml", own("web")+"data: {bad: hunter2hunter2}\n")
	r.Commit("its value elsewhere")
	e := run(r, allow)
	if e.Status != hydrate.StatusRefused || len(e.Violations) != 1 ||
		!strings.Contains(e.Violations[0].Message, "bad is ") {
		t.Fatalf("Summary is %s, the violations are %+v", e.Summary(), e.Violations)
	}
	if message := e.Violations[0].Message; strings.Contains(message, "hunter2") {
		t.Errorf("the message shows the value: %s", message)
	}
}
