package cli

import (
	"errors"
	"testing"
)

func TestPlaceOfBranches(t *testing.T) {
	t.Parallel()
	const below = "https://Git.example.com/gitlab"
	for _, c := range []struct{ address, output, server, want string }{
		{"", "", below, "acme/fleet"},
		{"https://git.example.com/gitlab/acme/fleet.git", "", below, "acme/fleet"},
		{"https://git.example.com/acme/fleet", "", below, ""},
		{"git@git.example.com:acme/other", "", below, ""},
		{"", "https://git.example.com/gitlab/acme/out.git", below, "acme/out"},
		{"", "https://git.example.com/gitlab/acme/out.git", below + "/", "acme/out"},
		{"", "https://git.example.com/GitLab/Acme/Out", below, "Acme/Out"},
		{"", "https://git.example.com/acme/out", below, ""},
		{"", "https://git.example.com/gitlab", below, ""},
		{"", "https://git.example.com/gitlabs/acme/out", below, ""},
		{"git@git.example.com:acme/fleet.git", "git@git.example.com:acme/out.git", below, "acme/out"},
		{"", "ssh://git@git.example.com/acme/out", below, "acme/out"},
		{"", "git@git.example.com:gitlab/out", below, "gitlab/out"}, // a group with the name of the path
		{"", "https://github.com/acme/out", "https://github.com", "acme/out"},
		{"", "git::https://github.com/acme/out", "https://github.com", "acme/out"},
		{"", "https://github.com/acme/../../out", "https://github.com", ""},
		{"", "https://elsewhere.example.com/acme/out", "https://github.com", ""},
	} {
		got, err := placeOfBranches("acme/fleet", c.address, c.output, c.server)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: the result of placeOfBranches is %q, the error is %v", c, got, err)
		}
	}
}

func TestUnreadStatuses(t *testing.T) {
	t.Parallel()
	down := errors.New("502")
	for _, c := range []struct {
		over         int
		err          error
		why, problem string
	}{
		{0, nil, "", ""},
		{
			1, nil, "its statuses were not read: --statuses is 300",
			"the statuses of 1 cluster branch were not read: --statuses is 300",
		},
		{
			2, nil, "its statuses were not read: --statuses is 300",
			"the statuses of 2 cluster branches were not read: --statuses is 300",
		},
		{
			0, down, "its statuses were not read: the forge did not answer all requests",
			"the health of some clusters is unknown: cannot read commit statuses: 502",
		},
		{
			2, down, "its statuses were not read: --statuses is 300, and the forge did not answer all requests",
			"the health of some clusters is unknown: cannot read commit statuses: 502",
		},
	} {
		if why, problem := unreadStatuses(c.over, 300, c.err); why != c.why || problem != c.problem {
			t.Errorf("the over is %d, the error is %v: the why is %q, the problem is %q", c.over, c.err, why, problem)
		}
	}
}
