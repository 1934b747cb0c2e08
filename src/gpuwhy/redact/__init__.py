"""Reports that may be shown to strangers: names of files, modules, functions, hosts and users replaced."""
