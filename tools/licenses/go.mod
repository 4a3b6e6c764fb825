module github.com/sluice-gitops/sluice/tools/licenses

go 1.26

require github.com/google/licensecheck v0.3.1
