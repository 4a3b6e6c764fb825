package rest

import "strings"

// WebBase returns the base address of a forge's web pages, from the address of a merge request of a repository.
// requests is the text between the repository and the number. It returns false if the address does not belong to the
// repository.
func WebBase(address, repository, requests string) (string, bool) {
	before, _, ok := strings.Cut(address, requests)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(before, "/"+repository)
}
