package rest

import "strings"

// WebBase returns the address below which a forge's pages are, from the address of a merge request of a repository. requests is what
// stands between the repository and the number. It returns false if the address is not one of the repository.
func WebBase(address, repository, requests string) (string, bool) {
	before, _, ok := strings.Cut(address, requests)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(before, "/"+repository)
}
