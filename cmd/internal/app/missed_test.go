package app_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// sources returns the source commits of an environment branch's commits, oldest first.
func (s *story) sources(branch string) []string {
	out, err := exec.CommandContext(context.Background(), "git", "-C", s.bare(repo), "log",
		"--reverse", "--first-parent",
		"--format=%(trailers:key=Sluice-Source,valueonly)", "refs/heads/"+branch).Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

// After a time without a service and without webhooks, the service processes every commit of the trunk, closed merge
// requests, and commands.
func TestEventsDuringDowntime(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.drop = func(string) bool { return true }
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		want := []string{s.ref("main")}
		s.branch("cad", "CAD")
		closed := s.open("cad", "ada")
		s.says(closed, "+  currency: CAD")
		preview := fmt.Sprintf("sluice/preview/%d", closed)
		s.until("there is a preview", func() bool { return s.ref(preview) != "" })
		s.end()
		s.shut(closed)
		last := 0
		for _, step := range []string{"first step", "second step", "third step"} {
			last = s.greet(step)
			s.merge(last)
			want = append(want, s.ref("main"))
		}
		s.say(last, "mia", "/sluice help")
		s.start()
		s.until("dev runs the tip", func() bool { return slices.Contains(s.sources("env/dev"), want[len(want)-1]) })
		if got := s.sources("env/dev"); !slices.Equal(got, want) {
			t.Errorf("env/dev has commits of\n%v, and the trunk has\n%v", got, want)
		}
		for _, commit := range want {
			s.until("each commit says so", func() bool { return s.status(commit, "sluice/dev") == "success" })
		}
		s.until("the preview is gone", func() bool { return s.ref(preview) == "" })
		s.until("the command is carried out once", func() bool {
			all := strings.Join(s.comments(last), "\n")
			return len(s.comments(last)) == 2 && strings.Count(all, "| `/sluice help` | `mia` |") == 1
		})
	})
}

// A command whose webhook is lost is executed once. A merge request whose closing webhook is lost is cleaned up.
func TestLostCommandAndCloseWebhooks(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.setFleet("main", gated)
		s.start()
		s.until("staging is there", func() bool { return s.ref("env/staging") != "" })
		closed, merged, old := s.greet("step"), s.greet("other step"), s.greet("old step")
		preview := func(n int) string { return fmt.Sprintf("sluice/preview/%d", n) }
		for _, n := range []int{closed, merged, old} {
			s.until("there is a preview", func() bool { return s.ref(preview(n)) != "" })
		}
		s.drop = func(string) bool { return true }
		s.say(closed, "mia", "/sluice freeze prod --reason lost")
		s.say(closed, "mia", "what a day")
		s.shut(closed)
		s.say(merged, "mia", "/sluice help")
		s.merge(merged)
		s.until("the command is done", func() bool { return strings.Contains(s.promotionRecord(), "lost") })
		s.until("help is answered", func() bool { return strings.Contains(s.all(merged), "| `/sluice help` |") })
		s.until("the previews are gone", func() bool {
			return s.ref(preview(closed)) == "" &&
				s.ref(preview(merged)) == ""
		})
		s.end()
		tip := s.ref(preview(old))
		s.shut(old)
		s.start()
		s.until("the preview of what was closed meanwhile is gone",
			func() bool { return tip != "" && s.ref(preview(old)) == "" })
		s.run(s.bare(repo), "update-ref", "refs/heads/"+preview(old), tip)
		s.end()
		s.start()
		s.until("a preview that was left is gone", func() bool { return s.ref(preview(old)) == "" })
		if n := strings.Count(s.all(merged), "Commands, each at"); n != 1 {
			t.Errorf("help was answered %d times", n)
		}
	})
}
