package promote_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet/expression"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/promote"
)

// 500 promotions of a year: each trunk commit reaches staging after 2 hours, and prod after 2 to 15 hours more. What the
// replay says is compared with the plan that the history was made from.
func TestReplayGate(t *testing.T) {
	promotions := 500
	if testing.Short() {
		promotions = 40
	}
	start := time.Date(2025, 3, 3, 8, 0, 0, 0, time.UTC)
	r := hydratetest.New(t)
	r.Write("sluice.yaml", `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  environments: [{name: dev}, {name: staging, after: [dev]}, {name: prod, after: [staging]}]
`)
	r.Write("clusters/c.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {environment: prod}\n")
	r.Commit("start")
	var stream strings.Builder
	write := func(ref string, at time.Time, message, from string, change string) {
		fmt.Fprintf(&stream, "commit %s\ncommitter Mia <mia@example.com> %d +0000\ndata %d\n%s\n%s%s\n", ref, at.Unix(),
			len(message), message, from, change)
	}
	soak := func(i int) time.Duration { return time.Duration(2+i*5%14) * time.Hour }
	mark := func(i int) string { return fmt.Sprintf("mark :%d\n", i+1) }
	for i := range promotions + 1 {
		from := ""
		if i == 0 {
			from = "from refs/heads/main^0\n"
		}
		name := fmt.Sprintf("apps/a%d/values.yaml", i%7)
		if i%10 == 9 {
			name = "layers/global/values.yaml"
		}
		text := fmt.Sprintf("n: %d\n", i)
		message := fmt.Sprintf("change %d", i)
		fmt.Fprintf(&stream, "commit refs/heads/main\n%scommitter Mia <mia@example.com> %d +0000\ndata %d\n%s\n%sM 100644 inline %s\ndata %d\n%s\n",
			mark(i), start.Add(time.Duration(i)*17*time.Hour).Unix(), len(message), message, from, name, len(text), text)
	}
	stream.WriteString("done\n")
	r.Pipe(stream.String(), "fast-import", "--quiet", "--done", "--force")
	commits := strings.Fields(r.Git("rev-list", "--reverse", "main"))[1:]
	stream.Reset()
	landed := make([]time.Time, len(commits))
	for i, commit := range commits {
		staging := start.Add(time.Duration(i)*17*time.Hour + 2*time.Hour)
		landed[i] = staging.Add(soak(i))
		trailers := "\n\nSluice-Environment: %s\nSluice-Source: " + commit + "\nSluice-Version: v1\nSluice-Promoted-From: %s\n"
		content := fmt.Sprintf("M 100644 inline cluster/app/object.yaml\ndata %d\n%s\n", len(commit), commit)
		write("refs/heads/env/staging", staging, "staging has it"+fmt.Sprintf(trailers, "staging", "dev"), "", content)
		write("refs/heads/env/prod", landed[i], "prod has it"+fmt.Sprintf(trailers, "prod", "staging"), "", content)
	}
	stream.WriteString("done\n")
	r.Pipe(stream.String(), "fast-import", "--quiet", "--done", "--force")

	gate, err := expression.Compile(`upstreams.staging.soak >= duration("12h") && commit.files.all(f, f.startsWith("apps/"))`)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	list, err := promote.ReplayGate(t.Context(), r.Hydrator(2), promote.ReplayRequest{
		Trunk: r.Resolve("main"), Environment: "prod", Gate: gate,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d promotions in %s", len(list), time.Since(begin))
	if len(list) != promotions {
		t.Fatalf("%d promotions", len(list))
	}
	for n, one := range list {
		i := promotions - n
		apps := i%10 != 9
		waited := soak(i) >= 12*time.Hour
		if one.Source != commits[i] || one.Open != (apps && waited) {
			t.Fatalf("%d: %+v, soak %s", i, one, soak(i))
		}
		if opened := landed[i].Add(12*time.Hour - soak(i)); one.Open && one.Opened.Sub(opened).Abs() > time.Minute {
			t.Errorf("%d opened %s, want %s", i, one.Opened, opened)
		} else if !one.Open && apps && one.Opens.Sub(opened).Abs() > time.Minute {
			t.Errorf("%d opens %s, want %s", i, one.Opens, opened)
		} else if !apps && !one.Opens.IsZero() {
			t.Errorf("%d opens %s", i, one.Opens)
		}
	}
}
