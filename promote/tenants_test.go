package promote_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// tenants adds two workspaces to the stage, each with an app that prod runs, and changes the apps of both in dev.
// team-a names zoe, and the team leads, as its approvers.
func (s *stage) tenants(count string) {
	s.T.Helper()
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	for name, approvers := range map[string]string{
		"team-a": "approvers: {users: [zoe], teams: [leads]" + count + "}, ",
		"team-b": "",
	} {
		s.Write("workspaces/"+name+".yaml", base+"Workspace\nmetadata: {name: "+name+"}\nspec: {"+approvers+
			"clusters: {}, namespaces: ["+name+"]}\n")
		s.Write("workspaces/"+name+"/apps/cart/app.yaml", base+"App\nmetadata: {name: cart}\nspec: {namespace: "+name+
			", placement: {}, source: {manifests: {path: m}}}\n")
		s.Write("workspaces/"+name+"/m/cart.yaml",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cart}\ndata: {a: one}\n")
	}
	s.Commit("tenants")
	s.hydrateThe("dev", "prod")
	s.changeTenants("two")
}

func (s *stage) changeTenants(text string) {
	s.T.Helper()
	for _, name := range []string{"team-a", "team-b"} {
		s.Write("workspaces/"+name+"/m/cart.yaml",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cart}\ndata: {a: "+text+"}\n")
	}
	s.Commit(text)
	s.hydrateThe("dev")
}

// says is a command in a comment of a person without any role, whose teams the forge knows.
func says(kind rollout.EventKind, id, by string, change func(*promote.Command)) promote.Command {
	return ordered(kind, id, func(c *promote.Command) {
		c.CLI, c.By, c.Person = false, by, rollout.Person{User: by}
		c.InTeam = func(_ context.Context, team string) (bool, error) { return by == "lea" && team == "leads", nil }
		if change != nil {
			change(c)
		}
	})
}

func ofWorkspaces(names ...string) func(*promote.Command) {
	return func(c *promote.Command) { c.Workspaces = names }
}

func (s *stage) has(workspace, text string) bool {
	return strings.Contains(s.Git("show", "env/prod:prod-eu-1/workspaces/"+workspace+"/cart/configmap-cart.yaml"), text)
}

// The approvers of a workspace approve a promotion of its apps, and of nothing else.
func TestApproversOfAWorkspace(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]string{
		"a user": "zoe", "a member of a team": "lea",
		"an approver of the environment": "mia",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: manual, approvers: {users: [mia], count: 1}")
			s.tenants("")
			s.look(nil, ordered(rollout.EventPromote, "p", ofWorkspaces("team-a")))
			if s.has("team-a", "two") {
				t.Fatal("nobody approved it")
			}
			if _, refused := s.look(nil, says(rollout.EventApprove, "a", who, nil)); len(refused) > 0 {
				t.Fatal(refused)
			}
			if !s.has("team-a", "two") || s.has("team-b", "two") {
				t.Error("prod does not run team-a's change alone")
			}
		})
	}
}

// What an approver of a workspace may not do.
func TestApproversOfAWorkspaceGetNoOtherRight(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, bake: 10h, approvers: {users: [mia], count: 1}, rights: [{verbs: [promote, now], users: [mia]}]")
	s.tenants("")
	for _, c := range []struct {
		what string
		ask  promote.Command
		say  promote.Command
		want string
	}{
		{
			"the other workspace", ordered(rollout.EventPromote, "1", ofWorkspaces("team-b")),
			says(rollout.EventApprove, "1a", "zoe", nil),
			"zoe is not among the approvers of prod; zoe is not among the approvers of workspace team-b either",
		},
		{
			"both", ordered(rollout.EventPromote, "2", ofWorkspaces("team-a", "team-b")),
			says(rollout.EventApprove, "2a", "zoe", nil), "zoe is not among the approvers of prod",
		},
		{
			"everything", ordered(rollout.EventPromote, "3", nil), says(rollout.EventApprove, "3a", "lea", nil),
			"lea is not among the approvers of prod",
		},
		{
			"with another app", ordered(rollout.EventPromote, "4", func(c *promote.Command) {
				c.Workspaces,
					c.Apps = []string{"team-a"}, []string{"shop"}
			}), says(rollout.EventApprove, "4a", "zoe", nil),
			"zoe is not among",
		},
		{"overtaking gates", ordered(rollout.EventPromote, "5", func(c *promote.Command) {
			c.Workspaces,
				c.Now = []string{"team-a"}, true
		}), says(rollout.EventApprove, "5a", "zoe", nil), "zoe is not among"},
		{
			"a stranger", ordered(rollout.EventPromote, "6", ofWorkspaces("team-a")),
			says(rollout.EventApprove, "6a", "eve", nil),
			"eve is not among the approvers of prod; eve is not among the approvers of workspace team-a either",
		},
		{
			"a promotion of its own", ordered(rollout.EventPromote, "7", ofWorkspaces("team-a")),
			says(rollout.EventPromote, "7a", "zoe", ofWorkspaces("team-a")), "zoe the right to promote",
		},
		{
			"a rollback", ordered(rollout.EventPromote, "8", ofWorkspaces("team-a")),
			says(rollout.EventRollback, "8a", "zoe", ofWorkspaces("team-a")), "zoe the right to rollback",
		},
	} {
		if _, refused := s.look(nil, c.ask); len(refused) > 0 {
			t.Fatalf("%s: the refused is %v", c.what, refused)
		}
		if _, refused := s.look(nil, c.say); !slices.ContainsFunc(refused,
			func(why string) bool { return strings.Contains(why, c.want) }) {
			t.Errorf("%s: refused %q, want %q", c.what, refused, c.want)
		}
		if s.has("team-a", "two") || s.has("team-b", "two") {
			t.Fatalf("%s: prod moved", c.what)
		}
	}
}

// An approval of a workspace's approver ends with the request: it does not count for a later one that brings more, on a
// command line neither.
func TestApprovalOfAWorkspaceEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, approvers: {users: [mia], count: 1}")
	s.tenants(", count: 2")
	s.look(nil, ordered(rollout.EventPromote, "1", ofWorkspaces("team-a")))
	last, refused := s.look(nil, says(rollout.EventApprove, "1a", "zoe", nil))
	if len(refused) > 0 || s.has("team-a", "two") || !strings.Contains(last.Decision.WaitsFor, "1 of 2: zoe") {
		t.Fatalf("%v: %s: the workspace asks for two approvals", refused, last.Decision.WaitsFor)
	}
	last, _ = s.look(nil, ordered(rollout.EventPromote, "2", nil))
	if s.has("team-a", "two") || !strings.Contains(last.Decision.WaitsFor, "0 of 1") {
		t.Fatalf("%s: the approval of a workspace counts for all", last.Decision.WaitsFor)
	}
	_, refused = s.look(nil, ordered(rollout.EventApprove, "2a", func(c *promote.Command) { c.By = "zoe" }))
	wants(t, "refused", refused, "zoe is not among the approvers of prod in sluice.yaml")
	s.look(nil, ordered(rollout.EventPromote, "3", ofWorkspaces("team-a")),
		says(rollout.EventApprove, "3a", "zoe", nil), says(rollout.EventApprove, "3b", "mia", nil))
	if !s.has("team-a", "two") || s.has("team-b", "two") {
		t.Error("zoe and mia approved team-a")
	}
}

// Where the environment names nobody, those who have the right approve; an approver of the workspace does, too, for the
// workspace alone.
func TestApproversOfAWorkspaceBesideRights(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, approvers: {count: 1}, rights: [{verbs: [promote, approve], users: [mia, noor]}]")
	s.tenants("")
	s.look(nil, ordered(rollout.EventPromote, "1", nil))
	if _, refused := s.look(nil, says(rollout.EventApprove, "1a", "zoe", nil)); len(refused) == 0 ||
		s.has("team-a", "two") {
		t.Fatal("zoe approved everything")
	}
	s.look(nil, ordered(rollout.EventPromote, "2", ofWorkspaces("team-a")),
		says(rollout.EventApprove, "2a", "zoe", nil))
	if !s.has("team-a", "two") || s.has("team-b", "two") {
		t.Error("zoe approved team-a")
	}
	s.changeTenants("three")
	s.look(nil, ordered(rollout.EventPromote, "3", ofWorkspaces("team-a")),
		says(rollout.EventApprove, "3a", "noor", nil))
	if !s.has("team-a", "three") {
		t.Error("noor approved team-a")
	}
}

// The approval of a workspace's approver is not one of a later request that overtakes gates, although it was for the
// same tree.
func TestApprovalOfAWorkspaceOvertakesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, bake: 10h, approvers: {count: 1}, rights: [{verbs: [promote, approve, now], users: [mia, noor]}]")
	s.tenants("")
	_, refused := s.look(nil, ordered(rollout.EventPromote, "1", ofWorkspaces("team-a")),
		says(rollout.EventApprove, "1a", "zoe", nil))
	last, more := s.look(nil, ordered(rollout.EventPromote, "2",
		func(c *promote.Command) { c.Workspaces, c.Now = []string{"team-a"}, true }))
	if len(refused)+len(more) > 0 || s.has("team-a", "two") || !strings.Contains(last.Decision.WaitsFor, "0 of 1") {
		t.Fatalf("%v %v: zoe's approval counts for --now: %s", refused, more, last.Decision.WaitsFor)
	}
	s.look(nil, ordered(rollout.EventApprove, "2a", func(c *promote.Command) { c.By = "noor" }))
	if !s.has("team-a", "two") {
		t.Error("noor approved it")
	}
}

// The approval of a person whom the workspace no longer names does not count, also where the environment names nobody.
func TestFormerApproverOfAWorkspace(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, approvers: {count: 1}, rights: [{verbs: [promote, approve], users: [mia, noor]}]")
	s.tenants(", count: 2")
	_, refused := s.look(nil, ordered(rollout.EventPromote, "1", ofWorkspaces("team-a")),
		says(rollout.EventApprove, "1a", "zoe", nil))
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	s.Write("workspaces/team-a.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: Workspace\nmetadata: {name: team-a}\nspec: {approvers: {users: [yan], count: 2}, clusters: {}, namespaces: [team-a]}\n")
	s.Commit("zoe leaves")
	last, refused := s.look(nil, says(rollout.EventApprove, "1b", "noor", nil))
	if len(refused) > 0 || s.has("team-a", "two") || !strings.Contains(last.Decision.WaitsFor, "1 of 2: noor") {
		t.Errorf("%v: %s: zoe's approval counts although the workspace no longer names her", refused,
			last.Decision.WaitsFor)
	}
}

// Approvers are read from the declaration on the trunk of the fleet: what a workspace writes into its own folder is no
// declaration.
func TestAWorkspaceNamesNoApprovers(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, approvers: {users: [mia], count: 1}")
	s.tenants("")
	const own = "apiVersion: sluice.dev/v1alpha1\nkind: Workspace\nmetadata: {name: team-b}\nspec: {approvers: {users: [eve]}, clusters: {}, namespaces: [team-b]}\n"
	s.Write("workspaces/team-b/workspaces/team-b.yaml", own)
	s.Write("workspaces/team-b/sluice.yaml", own)
	s.Commit("eve approves")
	s.hydrateThe("dev")
	s.look(nil, ordered(rollout.EventPromote, "1", ofWorkspaces("team-b")))
	if _, refused := s.look(nil, says(rollout.EventApprove, "1a", "eve", nil)); len(refused) == 0 ||
		s.has("team-b", "two") {
		t.Error("eve approved what she wrote herself")
	}
	s.Write("workspaces/team-b/apps/more/app.yaml", own)
	s.Commit("a workspace instead of an app")
	f, _, err := s.Hydrator(1).Fleet(t.Context(), s.tip().Tree)
	if err != nil {
		t.Fatal(err)
	}
	if w, ok := f.Workspace("team-b"); !ok || w.Err == nil || len(w.Spec.Approvers.Users) > 0 {
		t.Errorf("the result of Workspace is %+v", w)
	}
}

// An environment without a state has nothing to keep for the apps that a promotion leaves out.
func TestPartOfAFirstPromotion(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual")
	s.tenants("")
	for _, name := range []string{"env/prod", "cluster/prod-eu-1", "cluster/prod-us-1", "cluster/prod-edge-1"} {
		s.Git("branch", "-D", name)
	}
	for _, part := range []func(*promote.Command){
		ofWorkspaces("team-a"),
		func(c *promote.Command) { c.Apps = []string{"shop"} },
	} {
		_, refused := s.look(nil, ordered(rollout.EventPromote, "p", part))
		wants(t, "refused", refused, "prod runs nothing yet, so it cannot take only some apps")
	}
	s.look(nil, ordered(rollout.EventPromote, "all", nil))
	if !s.has("team-a", "two") || !s.has("team-b", "two") {
		t.Error("prod does not run everything")
	}
}
