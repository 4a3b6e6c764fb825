package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/bundle/receipt"
	"github.com/sluice-gitops/sluice/bundle/receipt/transfer"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// home is the home of a fleet, with prod as an isolated environment that runs a first commit, and staging after it.
type home struct {
	*hydratetest.Repo
	site  envelope.Signer
	trust *envelope.Trust
	now   time.Time
	last  string // digest of the receipt that was made last
	next  int64
}

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{Repo: hydratetest.Demo(t), now: time.Now().UTC().Truncate(time.Second), next: 1}
	h.Write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: harbour}\nspec:\n  trunk: main\n  layers: [class, environment, region, cluster]\n"+
		"  environments:\n    - name: dev\n    - {name: prod, after: [dev], isolated: {receipts: {maxAge: 36h}}, promotion: {mode: auto}}\n"+
		"    - {name: staging, after: [prod], promotion: {mode: auto, bake: 1h}}\n")
	h.Commit("graph")
	key, line := hydratetest.NewKey(t)
	h.site = envelope.SSH(key.(envelope.SSHKey))
	var err error
	if h.trust, err = envelope.ParseTrust([]byte("fleet: harbour\nenvironments: [prod, gone, dev]\nsigners:\n  - " + line + "\n")); err != nil {
		t.Fatal(err)
	}
	h.hydrateDev()
	h.look()
	return h
}

func (h *home) hydrateDev() {
	h.T.Helper()
	if r := h.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"} }); !r.OK() {
		h.T.Fatalf("%+v", r)
	}
}

// look promotes what is due, and returns the statuses of prod and of staging.
func (h *home) look() (prod, staging promote.Status) {
	h.T.Helper()
	c := h.Resolve("main")
	list, err := promote.Run(h.T.Context(), h.Hydrator(2), promote.Request{Trunk: c, Now: h.now, Adapters: promote.Adapters{Policy: green{}}})
	if err != nil {
		h.T.Fatal(err)
	}
	return list[0], list[1]
}

// honest is a receipt of a site that has run for an hour what env/prod has.
func (h *home) honest() receipt.Receipt {
	h.T.Helper()
	since := h.now.Add(-time.Hour)
	id := strings.Repeat("1", 40)
	r := receipt.Receipt{
		APIVersion: receipt.Version, Kind: receipt.Kind, Fleet: "harbour", Environment: "prod", Site: "east", Sequence: h.next, Made: h.now,
		Trunk: id, Incoming: h.Git("rev-parse", "env/prod"), Bundle: &receipt.Bundle{Sequence: 1, Digest: strings.Repeat("2", 64)},
		Branch: receipt.Branch{Commit: id, Tree: h.Git("rev-parse", "env/prod^{tree}"), Source: h.Git("rev-parse", "main"), Since: since},
	}
	r.Rollout = receipt.Rollout{Tree: r.Branch.Tree, Started: since, Healthy: since, Done: since}
	for _, name := range []string{"prod-edge-1", "prod-eu-1", "prod-us-1"} {
		tree := h.Git("rev-parse", "env/prod:"+name)
		r.Clusters = append(r.Clusters, receipt.Cluster{
			Name: name, Branch: receipt.Branch{Commit: id, Tree: tree, Source: r.Branch.Source, Since: since}, Desired: tree,
		})
	}
	return r
}

// seal signs a receipt, which a site may have changed, as the next one.
func (h *home) seal(r receipt.Receipt, change func(*envelope.Manifest), by ...envelope.Signer) []byte {
	h.T.Helper()
	data, err := r.Encode()
	if err != nil {
		h.T.Fatal(err)
	}
	m := envelope.Manifest{Kind: envelope.Receipt, Fleet: r.Fleet, Environment: r.Environment, Sequence: r.Sequence, Previous: h.last, Created: r.Made}
	if change != nil {
		change(&m)
	}
	parts := []envelope.Content{envelope.Text(receipt.File, data)}
	manifest, err := envelope.Seal(m, parts)
	if err != nil {
		h.T.Fatal(err)
	}
	var out bytes.Buffer
	if err := envelope.Write(&out, manifest, parts, append(by, h.site)[:1]...); err != nil {
		h.T.Fatal(err)
	}
	h.last, h.next = envelope.Digest(manifest), r.Sequence+1
	return out.Bytes()
}

func (h *home) imports(data []byte, change func(*transfer.Want)) (*transfer.Imported, error) {
	h.T.Helper()
	want := transfer.Want{Trunk: h.Resolve("main"), Trust: h.trust, Now: h.now, By: "ana"}
	if change != nil {
		change(&want)
	}
	return transfer.Import(h.T.Context(), h.Hydrator(1), data, want)
}

func (h *home) mustImport(r receipt.Receipt) {
	h.T.Helper()
	if _, err := h.imports(h.seal(r, nil), nil); err != nil {
		h.T.Fatal(err)
	}
}

func gate(s promote.Status) rollout.Gate {
	for _, g := range s.Decision.Gates {
		if g.Name == rollout.GateBefore+"prod" {
			return g
		}
	}
	return rollout.Gate{}
}

// An honest receipt opens the gate after its environment when the bake has passed on the site.
func TestHonestReceipt(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if _, staging := h.look(); gate(staging).State != rollout.Unknown {
		t.Errorf("without a receipt, the gate is %s", gate(staging))
	}
	h.now = h.now.Add(2 * time.Hour)
	h.mustImport(h.honest())
	prod, staging := h.look()
	if s := prod.Site; s == nil || s.State != rollout.Green || s.Name != "east" || s.Bundle != 1 || len(s.Clusters) != 3 || len(prod.Decision.Behind) != 0 {
		t.Errorf("prod is %+v", prod.Site)
	}
	if staging.Tip == "" {
		t.Errorf("nothing was promoted to staging: %v, %s", staging.Decision.Gates, staging.Decision.WaitsFor)
	}
	if refs := h.Git("for-each-ref", "--format=%(refname)", "refs/heads/cluster/prod*"); refs != "" {
		t.Errorf("home moved %s", refs)
	}
}

// What a receipt says and home never made is red, and a newer receipt ends it.
func TestContradictions(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	other := strings.Repeat("9", 40)
	first := h.Git("rev-parse", "env/prod:prod-eu-1")
	for name, c := range map[string]struct {
		change func(*receipt.Receipt)
		state  rollout.State
		reason string
	}{
		"tree of a cluster": {
			func(r *receipt.Receipt) { r.Clusters[1].Branch.Tree = other }, rollout.Red,
			"cluster prod-eu-1 has tree 9999999999, which env/prod never had for it",
		},
		"tree of another cluster": {
			func(r *receipt.Receipt) { r.Clusters[1].Branch.Tree = r.Clusters[2].Branch.Tree }, rollout.Red,
			"cluster prod-eu-1 has tree",
		},
		"tree of the environment": {func(r *receipt.Receipt) {
			r.Branch.Tree, r.Rollout.Tree, r.Clusters = other, other, []receipt.Cluster{}
		}, rollout.Red, "env/prod of the site has tree 9999999999, which it never had here"},
		"what the branch has for a cluster": {
			func(r *receipt.Receipt) { r.Clusters[1].Desired = other }, rollout.Red,
			"has 9999999999 for cluster prod-eu-1, and env/prod has " + first[:10],
		},
		"the source of a tree":       {func(r *receipt.Receipt) { r.Branch.Source = other }, rollout.Red, "is of 9999999999, and env/prod has it of"},
		"what it imported":           {func(r *receipt.Receipt) { r.Incoming = other }, rollout.Red, "the site imported commit 9999999999, which env/prod never had"},
		"a foreign commit":           {func(r *receipt.Receipt) { r.Branch.Foreign = "its commit by Eve was not made by Sluice" }, rollout.Red, "Eve"},
		"a foreign cluster branch":   {func(r *receipt.Receipt) { r.Clusters[0].Branch.Foreign = "somebody set it back" }, rollout.Red, "cluster prod-edge-1: somebody set it back"},
		"a cluster it does not have": {func(r *receipt.Receipt) { r.Clusters = r.Clusters[:2] }, rollout.Green, ""},
	} {
		r := h.honest()
		c.change(&r)
		h.mustImport(r)
		prod, staging := h.look()
		if prod.Site.State != c.state || !strings.Contains(prod.Site.Reason, c.reason) {
			t.Errorf("%s: the receipt is %s: %s", name, prod.Site.State, prod.Site.Reason)
		}
		if c.state == rollout.Red && (gate(staging).State != rollout.Red) {
			t.Errorf("%s: staging: %s", name, gate(staging))
		}
		if staging.Tip != "" {
			t.Errorf("%s: staging is at %s", name, staging.Tip)
		}
	}
	r := h.honest() // after a rollback there, with two clusters that it does not name
	r.Branch.Tree, r.Branch.Source, r.Rollout.Tree, r.Clusters = other, "", other, r.Clusters[:1]
	h.mustImport(r)
	if _, staging := h.look(); staging.Tip != "" {
		t.Error("staging takes what one of three clusters runs")
	}
	h.mustImport(h.honest())
	if prod, staging := h.look(); prod.Site.State != rollout.Green || staging.Tip == "" {
		t.Errorf("an honest receipt is %s: %s; staging is at %q", prod.Site.State, prod.Site.Reason, staging.Tip)
	}
}

// After a rollback of one cluster on the site, its branch has a tree that only the site made. The clusters' trees tell.
func TestRollbackOfAClusterOnTheSite(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	first := h.honest()
	h.Write("apps/shop/layers/global/values.yaml", "config:\n  motd: second\n")
	h.Commit("second")
	h.hydrateDev()
	h.look()
	r := h.honest()
	r.Branch.Tree, r.Branch.Source, r.Rollout.Tree = strings.Repeat("9", 40), "", strings.Repeat("9", 40)
	r.Clusters[1].Branch.Tree, r.Clusters[1].Desired = first.Clusters[1].Branch.Tree, first.Clusters[1].Desired
	h.mustImport(r)
	prod, _ := h.look()
	if prod.Site.State != rollout.Green || prod.Site.Source.On("prod-eu-1").Commit != first.Branch.Source ||
		prod.Site.Source.On("prod-us-1").Commit != h.Git("rev-parse", "main") {
		t.Errorf("the site runs %s: %s", prod.Site.Source, prod.Site.Reason)
	}
	if got := strings.Join(prod.Decision.Behind, " "); got != "prod-eu-1" {
		t.Errorf("behind are %q", got)
	}
}

// The site says which bundle it imported last, and home knows what it exported.
func TestAnotherBundle(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	digest := strings.Repeat("2", 64)
	exported := func(digest, tip string) {
		h.T.Helper()
		blob := h.Pipe(fmt.Sprintf(`[{"sequence":1,"digest":%q,"tip":%q,"created":"2026-11-30T09:00:00Z"}]`, digest, tip), "hash-object", "-w", "--stdin")
		tree := h.Pipe("100644 blob "+blob+"\tprod.json\n", "mktree")
		h.Git("update-ref", "refs/heads/sluice/bundles", h.Git("commit-tree", "-m", "bundle", tree))
	}
	tip := h.Git("rev-parse", "env/prod")
	for _, c := range []struct{ digest, tip, reason string }{
		{strings.Repeat("3", 64), tip, "the site imported another bundle 1 (2222222222) than was exported here (3333333333)"},
		{digest, h.Git("rev-parse", "main"), "the site says that bundle 1 brought commit " + tip[:10]},
		{digest, tip, ""},
	} {
		exported(c.digest, c.tip)
		h.mustImport(h.honest())
		prod, _ := h.look()
		if red := prod.Site.State == rollout.Red; red != (c.reason != "") || !strings.Contains(prod.Site.Reason, c.reason) {
			t.Errorf("the receipt is %s: %s; want %q", prod.Site.State, prod.Site.Reason, c.reason)
		}
	}
}

// Receipts are imported once, in the order of their numbers, whatever clocks say.
func TestOrder(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	refuse := func(what string, data []byte, want error, text string) {
		t.Helper()
		tip := h.Git("for-each-ref", "--format=%(objectname)", "refs/heads/sluice/receipts/prod")
		if _, err := h.imports(data, nil); !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error is %v", what, err)
		}
		if now := h.Git("for-each-ref", "--format=%(objectname)", "refs/heads/sluice/receipts/prod"); now != tip {
			t.Errorf("%s: the branch moved", what)
		}
	}
	first := h.seal(h.honest(), nil)
	r := h.honest()
	r.Made = r.Made.Add(-24 * time.Hour) // the site's clock was set back meanwhile
	second := h.seal(r, nil)
	restored := h.last
	third := h.seal(h.honest(), nil)
	if done, err := h.imports(second, nil); err != nil || done.Gap != 0 || done.Already {
		t.Fatalf("the second: %+v, %v", done, err)
	}
	if done, err := h.imports(second, nil); err != nil || !done.Already {
		t.Errorf("the second again: %+v, %v", done, err)
	}
	refuse("the first after the second", first, transfer.ErrRefused, "receipt 1 of prod is older than receipt 2")
	h.next, h.last = 2, strings.Repeat("3", 64)
	refuse("another second", h.seal(h.honest(), nil), transfer.ErrRefused, "it is another receipt 2 of prod")
	h.next, h.last = 3, strings.Repeat("3", 64)
	refuse("a third after another second", h.seal(h.honest(), nil), transfer.ErrRefused, "receipt 3 of prod follows another receipt 2")
	h.next, h.last = 6, strings.Repeat("4", 64)
	sixth := h.seal(h.honest(), nil)
	if done, err := h.imports(third, nil); err != nil || done.Gap != 0 {
		t.Errorf("the third: %+v, %v", done, err)
	}
	if done, err := h.imports(sixth, nil); err != nil || done.Gap != 2 {
		t.Errorf("the sixth: %+v, %v", done, err)
	}
	h.look() // the record knows that there was a sixth
	h.next, h.last = 3, restored
	again := h.seal(h.honest(), nil)
	refuse("a third of a restored site", again, transfer.ErrRefused, "--restored REASON")
	if _, err := h.imports(again, func(w *transfer.Want) { w.Restored = "a new disk" }); err != nil {
		t.Fatal(err)
	}
	if prod, _ := h.look(); prod.Site.State != rollout.Green || prod.Site.Sequence != 3 {
		t.Errorf("the receipt is %d, %s: %s", prod.Site.Sequence, prod.Site.State, prod.Site.Reason)
	}
	if body := h.Git("log", "-1", "--format=%B", "sluice/receipts/prod"); !strings.Contains(body, "a new disk") {
		t.Errorf("the commit says %q", body)
	}
	// somebody sets the branch back without a word
	h.Git("branch", "-f", "sluice/receipts/prod", "sluice/receipts/prod~3")
	if prod, _ := h.look(); prod.Site.State != rollout.Unknown || !strings.Contains(prod.Site.Reason, "somebody set sluice/receipts/prod back") {
		t.Errorf("the receipt is %s: %s", prod.Site.State, prod.Site.Reason)
	}
}

// The clock of the site is a day off, and nothing becomes green by it.
func TestClocks(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		off, later time.Duration // of the clock; between import and look
		state      rollout.State
		ahead      time.Duration
	}{
		"ahead":              {day, 0, rollout.Green, day},
		"ahead, and old":     {day, 37 * time.Hour, rollout.Unknown, day},
		"behind":             {-day, 0, rollout.Green, 0},
		"behind, and old":    {-day, 13 * time.Hour, rollout.Unknown, 0},
		"right, not too old": {0, 36 * time.Hour, rollout.Green, 0},
	} {
		h := newHome(t)
		h.now = h.now.Add(2 * time.Hour)
		true0 := h.now
		h.now = true0.Add(c.off)
		data := h.seal(h.honest(), nil)
		h.now = true0
		done, err := h.imports(data, nil)
		if err != nil || done.ClockAhead != c.ahead {
			t.Fatalf("%s: ahead by %v, %v", name, done, err)
		}
		h.now = h.now.Add(c.later)
		prod, _ := h.look()
		if prod.Site.State != c.state || prod.Site.Made.After(true0) || prod.Site.Since.After(true0) {
			t.Errorf("%s: the receipt is %s (%s), of %s, since %s", name, prod.Site.State, prod.Site.Reason, prod.Site.Made, prod.Site.Since)
		}
		if made := h.Resolve("env/prod").Committer.When; prod.Site.State == rollout.Green && prod.Site.Since.Before(made.Truncate(time.Second)) {
			t.Errorf("%s: it runs since %s what home made at %s", name, prod.Site.Since, made)
		}
	}
}

// Altered files, missing signatures, and receipts of other fleets and environments are refused.
func TestAttacksOnImports(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	stranger, _ := hydratetest.NewKey(t)
	eve := envelope.SSH(stranger.(envelope.SSHKey))
	good := h.seal(h.honest(), nil)
	h.next, h.last = 1, ""
	with := func(change func(*receipt.Receipt)) []byte {
		r := h.honest()
		change(&r)
		data := h.seal(r, nil)
		h.next, h.last = 1, ""
		return data
	}
	manifest := func(change func(*envelope.Manifest), by ...envelope.Signer) []byte {
		data := h.seal(h.honest(), change, by...)
		h.next, h.last = 1, ""
		return data
	}
	invalid := func(err error) bool { return errors.Is(err, envelope.ErrInvalid) || errors.Is(err, receipt.ErrInvalid) }
	untrusted := func(err error) bool { return errors.Is(err, envelope.ErrUntrusted) }
	refused := func(err error) bool { return errors.Is(err, transfer.ErrRefused) }
	flip := func(data []byte, at int) []byte {
		out := bytes.Clone(data)
		out[at] ^= 1
		return out
	}
	for name, c := range map[string]struct {
		data []byte
		is   func(error) bool
	}{
		"empty":                               {nil, invalid},
		"cut":                                 {good[:len(good)-512], invalid},
		"longer":                              {append(bytes.Clone(good), make([]byte, 512)...), invalid},
		"a bit of the receipt":                {flip(good, bytes.Index(good, []byte(`"site": "east"`))+10), invalid},
		"a bit of the signature":              {flip(good, bytes.Index(good, []byte("-----BEGIN SSH SIGNATURE"))+60), untrusted},
		"signed by a stranger":                {manifest(nil, eve), untrusted},
		"a bundle":                            {manifest(func(m *envelope.Manifest) { m.Kind = envelope.Bundle }), invalid},
		"another number in the manifest":      {manifest(func(m *envelope.Manifest) { m.Sequence, m.Previous = 9, strings.Repeat("1", 64) }), invalid},
		"another time in the manifest":        {manifest(func(m *envelope.Manifest) { m.Created = m.Created.Add(time.Hour) }), invalid},
		"another environment in the manifest": {manifest(func(m *envelope.Manifest) { m.Environment = "dev" }), invalid},
		"another fleet":                       {with(func(r *receipt.Receipt) { r.Fleet = "other" }), untrusted},
		"an environment not in the file of signers": {with(func(r *receipt.Receipt) { r.Environment = "staging" }), untrusted},
		"an environment that is gone":               {with(func(r *receipt.Receipt) { r.Environment = "gone" }), refused},
		"an environment that is not isolated":       {with(func(r *receipt.Receipt) { r.Environment = "dev" }), refused},
	} {
		if done, err := h.imports(c.data, nil); err == nil || !c.is(err) {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
	}
	if refs := h.Git("for-each-ref", "--format=%(refname)", "refs/heads/sluice/receipts"); refs != "" {
		t.Errorf("an attack made %s", refs)
	}
	h.Git("branch", "sluice/incoming/prod", "main")
	h.Git("branch", "-m", "env/dev", "moved") // which home has, whatever somebody pushes
	if _, err := h.imports(good, nil); !refused(err) || !strings.Contains(err.Error(), "is the site of prod") {
		t.Errorf("on the site, the error is %v", err)
	}
	h.Git("branch", "-m", "moved", "env/dev")
	if _, err := h.imports(good, nil); err != nil {
		t.Error(err)
	}
	// somebody who may push replaces the receipt
	for name, data := range map[string]string{"receipt.json": "{}", "import.json": "{}", "other": "x"} {
		blob := h.Pipe(data, "hash-object", "-w", "--stdin")
		tree := h.Pipe(fmt.Sprintf("100644 blob %s\t%s\n", blob, name), "mktree")
		h.Git("update-ref", "refs/heads/sluice/receipts/prod", h.Git("commit-tree", "-p", "sluice/receipts/prod", "-m", "mine", tree))
		if prod, _ := h.look(); prod.Site.State != rollout.Unknown || !strings.Contains(prod.Site.Reason, "its receipt cannot be believed") {
			t.Errorf("%s: the receipt is %s: %s", name, prod.Site.State, prod.Site.Reason)
		}
	}
}

// With spec.signers, only an allowed key writes receipts at home.
func TestSignedRecords(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	key, line := hydratetest.NewKey(t)
	h.SetSigners(line)
	h.Commit("signers")
	if _, err := h.imports(h.seal(h.honest(), nil), nil); err == nil {
		t.Error("an unsigned commit has the receipt")
	}
	h.next, h.last, h.Signer = 1, "", key
	if _, err := h.imports(h.seal(h.honest(), nil), nil); err != nil {
		t.Fatal(err)
	}
	h.Forge("sluice/receipts/prod", "sluice/receipts/prod")
	f, _, err := h.Hydrator(1).Fleet(t.Context(), h.Resolve("main").Tree)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := promote.ReadReceipt(t.Context(), h.Hydrator(1), f, "prod"); !errors.Is(err, gitstore.ErrUnverified) {
		t.Errorf("the error is %v", err)
	}
}

// green is a policy without an objection.
type green struct{}

func (green) Judge(context.Context, promote.Part) (rollout.State, string) { return rollout.Green, "" }
