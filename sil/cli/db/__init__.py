"""`sil db`: the commands on a site database, and the listings that they print."""
