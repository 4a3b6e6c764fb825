//go:build !linux

package worker

import "runtime"

// confine reports no restrictions: on this system only the separate process, its limits and its timeouts protect.
func confine(cfg config) Report {
	out := Report{Mode: cfg.Mode, System: runtime.GOOS + " " + runtime.GOARCH}
	for _, name := range []string{
		"files", "writes", "network", "exec", "processes", "signals", "ptrace", "parent",
		"descriptors", "limits", "capabilities", "privileges",
	} {
		out.Restrictions = append(out.Restrictions, Restriction{
			Name:   name,
			Detail: "only Linux confines worker processes",
		})
	}
	return out
}
